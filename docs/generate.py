"""Write the generated pages: `python -m docs.generate`. A test fails when they are not current."""

from pathlib import Path
from typing import get_args

from agentcompass.components.contracts.errors import POLICIES
from agentcompass.components.contracts.requirements import NetworkKind, ResourceName
from agentcompass.components.contracts.sandbox import Capabilities
from agentcompass.components.execution.leftovers import provider
from agentcompass.components.registry import registry
from docs.command_pages import command_pages
from docs.component_pages import component_pages
from docs.markdown import NOTICE, page, table

FOLDER = Path(__file__).parent


def main() -> None:
    current = pages()
    for old in generated() - current.keys():
        (FOLDER / old).unlink()
    for name, text in current.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")


def generated() -> set[str]:
    """The generated pages that are there, current or not."""
    return {
        path.relative_to(FOLDER).as_posix()
        for path in FOLDER.rglob("*.md")
        if NOTICE in path.read_text(encoding="utf-8")
    }


def pages() -> dict[str, str]:
    """File name below docs/ → content of every generated page."""
    return {
        **component_pages(),
        **command_pages(),
        "errors.md": errors(),
        "capabilities.md": capabilities(),
    }


def errors() -> str:
    intro = (
        "Every failure has a code; this table is the one in `components/contracts/errors.py`.\n\n"
        "- **warning**: noted; what the agent left is graded.\n"
        "- **error**: no valid score.\n"
        "- **fatal**: infrastructure; no valid score.\n"
    )
    rows = [
        (
            f"`{code}`",
            policy.severity,
            policy.owner,
            "yes" if policy.graded else "no",
            "yes" if policy.stops_run else "no",
            policy.meaning,
        )
        for code, policy in POLICIES.items()
    ]
    header = ("code", "severity", "owner", "still graded", "stops the run", "meaning")
    return page("# Failures and their codes\n", NOTICE, intro, table(header, rows))


VARIANTS = {"host_process": {"isolation": "bubblewrap"}}
"""Parameters under which a provider can do something else."""


def capabilities() -> str:
    """What each environment can do; the conformance suite skips a behaviour only for a `no`."""
    columns: dict[str, Capabilities] = {}
    for name in registry.listings("environments"):
        for params in ({}, VARIANTS.get(name)):
            if params is not None:
                words = [f"`{name}`", *(f"{k}: {v}" for k, v in params.items())]
                columns[", ".join(words)] = provider(name, params).capabilities
    rows = [
        (meaning, *(_can(getattr(can, field), item) for can in columns.values()))
        for field, item, meaning in CAPABILITIES
    ]
    intro = (
        "What the providers promise. A plan that needs more is refused at preflight, and the "
        "conformance suite (`tests/conformance/environment.py`) skips a behaviour only where this "
        "table says no. What the words mean: [environments.md](environments.md).\n"
    )
    header = ("", *columns)
    return page("# What each environment can do\n", NOTICE, intro, table(header, rows))


CAPABILITIES = (
    ("isolated", None, "the agent cannot reach this machine's files"),
    ("images", None, "container images (`setup.image`)"),
    ("builds", None, "images built from a Dockerfile (`setup.build`)"),
    ("workdir", None, "any working directory (`setup.workdir`)"),
    ("users", None, "commands as another user (`user`)"),
    *(("resources", name, f"limit of `resources.{name}`") for name in get_args(ResourceName)),
    *(("network", kind, f"network policy `{kind}`") for kind in get_args(NetworkKind)),
    ("network_phases", None, "another policy in each phase of one sandbox"),
    ("model_address", None, "a model endpoint of this machine, from inside"),
    ("open_qps", None, "sandboxes opened per second unless you say otherwise"),
)


def _can(value: object, item: str | None) -> str:
    if isinstance(value, frozenset):
        return "yes" if item in value else "no"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if value else "no limit"


if __name__ == "__main__":
    main()
