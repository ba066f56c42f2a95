"""What planned components lack: found, named with its command, installed only when allowed."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import PreflightRefused
from agentcompass.components.contracts.run import Choice, ModelSpec, RunRequest, RuntimeSettings
from agentcompass.components.execution import dependencies, installing
from agentcompass.components.execution.dependencies import ensure, problems
from agentcompass.components.execution.missing import Missing, requirements

COMPONENT = '''"""A {family} of a plugin."""
from dataclasses import replace
from agentcompass.components.{module} import COMPONENT as BELOW
COMPONENT = replace(BELOW, requires={requires!r}, extra={extra!r})
'''
MODULES = {
    "benchmarks": "benchmarks.quickstart",
    "harnesses": "harnesses.idle",
    "analyzers": "analyzers.failures",
}
FAMILIES = {"benchmarks": "plug_bench", "harnesses": "plug_idle", "analyzers": "plug_look"}
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A distribution `plug-libs` with a benchmark and a harness that need libraries."""

    def put(
        needs: dict[str, tuple[tuple[str, ...], str]],
        declared: tuple[str, ...] = (),
        name: str = "plug-libs",
    ) -> None:
        folder = tmp_path / name
        metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir(parents=True)
        lines = "".join(f"Requires-Dist: {line}\n" for line in declared)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}"
        )
        text = ""
        for family, (modules, extra) in needs.items():
            component = FAMILIES[family]
            unique = f"{component}_{tmp_path.name.replace('-', '_')}"
            text += f"[agentcompass.{family}]\n{component} = {unique}:COMPONENT\n"
            (folder / f"{unique}.py").write_text(
                COMPONENT.format(
                    family=family, module=MODULES[family], requires=modules, extra=extra
                )
            )
        (metadata / "entry_points.txt").write_text(text)
        monkeypatch.syspath_prepend(str(folder))

    return put


def request(benchmark: str = "quickstart", harness: str = "idle", **runtime: object) -> RunRequest:
    return RunRequest(
        benchmark=Choice(id=benchmark),
        harness=Choice(id=harness),
        model=ModelSpec(id="scripted"),
        runtime=RuntimeSettings.model_validate(runtime),
    )


def test_nothing_is_missing_for_what_is_built_in_and_complete() -> None:
    assert problems(request(harness="mini_swe_agent")) == []


def test_only_planned_components_are_asked(install: Install) -> None:
    install({"harnesses": (("not_there_at_all",), "more")}, ('there>=1; extra == "more"',))
    assert problems(request()) == []


def test_an_analyzer_is_planned_when_it_is_asked_for_by_name(install: Install) -> None:
    install({"analyzers": (("not_there_at_all",), "more")}, ('there>=1; extra == "more"',))
    asked = request()
    assert problems(asked) == []
    settings = asked.execution.model_copy(update={"analysis_params": {"analyzers": ["plug_look"]}})
    (line,) = problems(asked.model_copy(update={"execution": settings}))
    assert line == "analyzer: plug_look needs not_there_at_all; pip install 'there>=1'"


def test_what_is_missing_is_one_line_with_the_exact_command(install: Install) -> None:
    install(
        {"harnesses": (("json", "not_there_at_all", "not_there.inner"), "more")},
        (
            'there-at-all[fast]>=1.2,<2; extra == "more"',
            'other; extra == "else"',
            "pydantic",
            'older; python_version < "3" and extra == "more"',
        ),
    )
    assert problems(request(harness="plug_idle")) == [
        "harness: plug_idle needs not_there_at_all, not_there.inner; "
        "pip install 'there-at-all[fast]<2,>=1.2'"
    ]


def test_without_an_extra_it_is_the_distributions_unmet_dependencies(install: Install) -> None:
    install(
        {"harnesses": (("not_there_at_all",), "")},
        ("there>=1", "pydantic>=2", "pytest>=9999", 'other; extra == "else"'),
    )
    (line,) = problems(request(harness="plug_idle"))
    assert line.endswith("pip install 'there>=1' 'pytest>=9999'")


def test_an_extra_that_nobody_declares_is_no_guess(install: Install) -> None:
    install({"harnesses": (("not_there_at_all",), "more")})
    (line,) = problems(request(harness="plug_idle"))
    assert "pip install" not in line
    assert "does not say what brings that" in line


def test_own_extras_are_followed_and_never_asked_of_an_index(install: Install) -> None:
    install(
        {},
        (
            'Plug.Libs[b]; extra == "a"',
            'plug-libs[a]; extra == "b"',
            'agentcompass[mini-swe-agent]>=0.1; extra == "b"',
            'there; extra == "b"',
        ),
    )
    found = list(requirements("plug-libs", "a"))
    assert [line.partition("<")[0].partition(">")[0] for line in found] == [
        "mini-swe-agent",
        "there",
    ]


def test_a_benchmark_that_cannot_load_its_data_is_refused_at_once(install: Install) -> None:
    install(
        {
            "benchmarks": (("not_there_at_all",), "more"),
            "harnesses": (("nor_this_one",), "more"),
        },
        ('there>=1; extra == "more"',),
    )
    with pytest.raises(PreflightRefused) as refused:
        ensure(request("plug_bench", "plug_idle"))
    assert [line.partition(" needs")[0] for line in refused.value.problems] == [
        "benchmark: plug_bench",
        "harness: plug_idle",
    ]
    ensure(request(harness="plug_idle"))  # told by preflight, with everything else


def test_nothing_is_installed_unasked(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install({"harnesses": (("not_there_at_all",), "more")}, ('there; extra == "more"',))
    monkeypatch.setattr(dependencies, "install", lambda wanted: pytest.fail("installed"))
    ensure(request(harness="plug_idle"))


def test_a_recipe_of_a_directory_has_nothing_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "needy.py").write_text(
        "from agentcompass.components.contracts.protocols import Component\n"
        "from agentcompass.components.contracts.recipe import Match, RecipeParameters\n"
        "class Made:\n"
        "    match = Match()\n"
        "    def __init__(self, parameters): pass\n"
        "    def adapt(self, task, context): return {}\n"
        "COMPONENT = Component('1', Made, RecipeParameters, ('not_there_at_all',), 'more')\n"
    )
    monkeypatch.setattr(dependencies, "install", lambda wanted: pytest.fail("installed"))
    asked = request(recipe_dirs=[str(folder)], auto_install_dependencies=True)
    ensure(asked)
    (line,) = problems(asked)
    assert line.startswith("recipe: needy needs not_there_at_all; ")
    assert "pip install" not in line


def test_what_an_installation_did_not_bring_is_told(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install({"harnesses": (("not_there_at_all",), "more")}, ('there; extra == "more"',))
    asked: list[tuple[str, ...]] = []

    def pretend(wanted: tuple[str, ...]) -> str:
        asked.append(wanted)
        return "there 1.0"

    monkeypatch.setattr(dependencies, "install", pretend)
    notes: list[str] = []
    with pytest.raises(PreflightRefused, match="still not there: plug_idle: not_there_at_all"):
        ensure(request(harness="plug_idle", auto_install_dependencies=True), notes.append)
    assert asked == [("there",)]
    assert notes == ["installing there", "installed: there 1.0"]


@pytest.mark.parametrize("with_uv", [True, False])
def test_an_installation_that_fails_is_one_line_and_its_output_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_uv: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    if not with_uv:
        monkeypatch.setattr(installing.os, "access", lambda path, mode: False)
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(installing.InstallFailed) as failed:
        installing.install(("there-is-no-such-thing-here",))
    assert "\n" not in str(failed.value)
    assert "pip says 'ERROR: Could not find a version that satisfies" in str(failed.value)
    (kept,) = tmp_path.rglob("install-*.log")
    assert str(kept) in str(failed.value)
    text = kept.read_text()
    assert f"{sys.executable} -P -m pip install" in text
    assert ("uv pip install" in text) is with_uv


def test_what_is_installed_keeps_its_version() -> None:
    with pytest.raises(installing.InstallFailed, match="click<8 is needed, and click 8"):
        installing.install(("there", "click<8"))


def test_without_any_installer_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(installing, "_commands", lambda held: iter(()))
    with pytest.raises(installing.InstallFailed, match="neither uv nor pip is here"):
        installing.install(("anything",))


def test_the_command_is_for_a_shell() -> None:
    missing = Missing("harnesses", "x", ("m",), ("a>=1,<2", "b"), trusted=True)
    assert str(missing) == "x needs m; pip install 'a>=1,<2' b"
