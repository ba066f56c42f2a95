"""Components from everywhere under one roof: clashes are told, a broken one harms no other."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.components.contracts import protocols, recipe
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.registry import registry
from agentcompass.components.registry.soundness import ATTRIBUTES

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a distribution with these entry points and modules importable; none of it is built."""

    def put(distribution: str, family: str, entries: dict[str, str], **modules: str) -> None:
        folder = tmp_path / distribution
        metadata = folder / f"{distribution}-2.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.0\n"
        )
        lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
        (metadata / "entry_points.txt").write_text(f"[agentcompass.{family}]\n{lines}")
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))

    return put


RECIPE = '''"""A recipe of a plugin. More text."""
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.recipe import Match, RecipeParameters
class Made:
    match = Match()
    def __init__(self, parameters): pass
    def adapt(self, task, context): return {}
COMPONENT = Component(version="1", create=Made, parameters=RecipeParameters)
'''


def test_a_plugin_is_listed_with_its_distribution_and_docstring_and_not_imported(
    install: Install,
) -> None:
    install("plug_a", "recipes", {"gentle": "plug_gentle:COMPONENT"}, plug_gentle=RECIPE)
    listing = registry.listings("recipes")["gentle"]
    assert (listing.origin, listing.distribution) == ("plug_a 2.0", "plug_a")
    assert listing.summary == "A recipe of a plugin. More text"
    assert registry.load("recipes", "gentle").version == "1"


def test_listing_runs_none_of_a_plugins_code(install: Install) -> None:
    install("plug_b", "recipes", {"loud": "plug_loud:COMPONENT"}, plug_loud="raise SystemExit(9)\n")
    assert "loud" in registry.listings("recipes")
    with pytest.raises(RequestError, match=r"'loud' from plug_loud:COMPONENT \(plug_b 2.0\)"):
        registry.load("recipes", "loud")


def test_a_clash_names_both_origins(install: Install) -> None:
    install("plug_c", "recipes", {"same": "plug_c1:COMPONENT"})
    install("plug_d", "recipes", {"same": "plug_d1:COMPONENT"})
    with pytest.raises(RequestError) as caught:
        registry.listings("recipes")
    for part in ("'same' is registered twice", "plug_c1", "plug_c 2.0", "plug_d1", "plug_d 2.0"):
        assert part in str(caught.value)


def test_a_clash_with_what_is_built_in_is_told_too(install: Install) -> None:
    install("plug_e", "benchmarks", {"gsm8k": "plug_e1:COMPONENT"})
    with pytest.raises(RequestError, match=r"benchmarks.gsm8k:COMPONENT \(built in\) and plug_e1"):
        registry.listings("benchmarks")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import not_there_at_all", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", "SystemExit"),
        ("X = 1", "ImportError: it does not export COMPONENT"),
        ("COMPONENT = 'text'", "exports a str, not a Component"),
        (RECIPE.replace('"1"', "1"), "has the version 1, which is not a text"),
        (RECIPE.replace("create=Made", "create=None"), "cannot be called"),
        (
            RECIPE.replace("parameters=RecipeParameters", "parameters=dict"),
            "parameters that do not extend RecipeParameters",
        ),
    ],
)
def test_an_asked_for_broken_one_is_one_line_with_the_reason(
    install: Install, text: str, complaint: str, request: pytest.FixtureRequest
) -> None:
    module = "plug_" + re.sub(r"\W", "_", request.node.callspec.id)[:40]
    install("plug_f", "recipes", {"bad": f"{module}:COMPONENT"}, **{module: text})
    with pytest.raises(RequestError) as caught:
        registry.load("recipes", "bad")
    assert complaint in str(caught.value)
    assert "'bad'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_that_makes_the_wrong_thing_is_told_before_a_run_trips_over_it(
    install: Install,
) -> None:
    text = RECIPE.replace("def adapt", "def adopt")
    install("plug_g", "recipes", {"half": "plug_half:COMPONENT"}, plug_half=text)
    component = registry.load("recipes", "half")
    with pytest.raises(RequestError, match="'half' makes a Made without adapt"):
        registry.create("recipes", "half", component, component.parameters())


def test_one_whose_making_fails_is_named(install: Install) -> None:
    text = RECIPE.replace(": pass", ": raise KeyError('x')")
    install("plug_h", "recipes", {"fails": "plug_fails:COMPONENT"}, plug_fails=text)
    component = registry.load("recipes", "fails")
    with pytest.raises(RequestError, match="'fails' cannot be created: KeyError: 'x'"):
        registry.create("recipes", "fails", component, component.parameters())


def test_what_is_asked_of_each_family_is_what_its_protocol_says() -> None:
    kinds = {
        "benchmarks": protocols.Benchmark,
        "environments": protocols.EnvironmentProvider,
        "recipes": recipe.Recipe,
        "models": protocols.ModelProvider,
        "analyzers": protocols.Analyzer,
    }
    for family, protocol in kinds.items():
        named = {name for name in vars(protocol) if not name.startswith("_")}
        assert set(ATTRIBUTES[family]) == named | set(protocol.__annotations__)  # type: ignore[index]
