"""Has a component what its family asks for? Said in one line, before a run trips over it."""

from pydantic import BaseModel

from agentcompass.components.contracts.analysis import AnalyzerParameters
from agentcompass.components.contracts.parameters import (
    BenchmarkParameters,
    EnvironmentParameters,
    HarnessParameters,
)
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.recipe import RecipeParameters
from agentcompass.components.registry.listing import Family

PARAMETERS: dict[Family, type[BaseModel]] = {
    "benchmarks": BenchmarkParameters,
    "harnesses": HarnessParameters,
    "environments": EnvironmentParameters,
    "recipes": RecipeParameters,
    "analyzers": AnalyzerParameters,
}
"""What a component's parameter model extends."""

ATTRIBUTES: dict[Family, tuple[str, ...]] = {
    "benchmarks": (
        "primary", "score_range", "verification", "needs_sandbox", "prepares_grading",
        "load", "prepare", "collect", "verify", "solution",
    ),
    "harnesses": ("needs",),
    "environments": ("capabilities", "preflight", "open", "leftovers", "remove_leftover"),
    "recipes": ("match", "adapt"),
    "models": ("check", "client", "close", "prices_known"),
    "analyzers": ("look_at", "report"),
}  # fmt: skip
"""By contracts/protocols.py; a test compares the two."""


def wrong_export(family: Family, exported: object) -> str:
    """What is wrong with what a file exports; "" if nothing is."""
    if not isinstance(exported, Component):
        return f"exports a {type(exported).__name__}, not a Component"
    if not (isinstance(exported.version, str) and exported.version):
        return f"has the version {exported.version!r}, which is not a text"
    if not callable(exported.create):
        return "has a `create` that cannot be called"
    wanted = PARAMETERS.get(family, BaseModel)
    parameters: object = exported.parameters
    if not (isinstance(parameters, type) and issubclass(parameters, wanted)):
        return f"has parameters that do not extend {wanted.__name__}"
    return ""


def wrong_shape(family: Family, made: object) -> str:
    """What is wrong with what `create` made; "" if nothing is."""
    lacks = [name for name in ATTRIBUTES[family] if not hasattr(made, name)]
    if family == "harnesses" and not lacks:
        needed = "play" if getattr(getattr(made, "needs", None), "solution", False) else "run"
        lacks = [] if hasattr(made, needed) else [needed]
    return f"makes a {type(made).__name__} without {', '.join(lacks)}" if lacks else ""
