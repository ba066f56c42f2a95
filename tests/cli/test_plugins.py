"""A package of somebody else brings one component of each kind, installed with pip, and runs."""

import json
import shutil
from pathlib import Path

import pytest

from tests.standins.python_home import PythonHome, python_home

PACKAGE = Path(__file__).parent.parent / "plugin_package"
ALL = ("plug_roman", "plug_shell", "scripted", "--env", "plug_place")
ANSWERS = {"script": {"tasks": {"4": {"replies": ["IV"]}, "12": {"replies": ["XII"]}}}}
BROKEN = "'plug_gone' from compass_plugin.gone:COMPONENT (compass-plugin 1.2.3) cannot be loaded"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PythonHome]:
    folder = tmp_path_factory.mktemp("plugins")
    home = python_home(folder / "venv")
    shutil.copytree(PACKAGE, folder / "plugin")
    home.install("--no-deps", "./plugin", cwd=folder)
    return folder, home


@pytest.mark.parametrize(
    ("family", "known"),
    [
        ("benchmark", "plug_roman"),
        ("harness", "plug_shell"),
        ("env", "plug_place"),
        ("recipe", "plug_variable"),
        ("analyzer", "plug_count"),
    ],
)
def test_each_is_listed_with_its_origin_and_its_first_line(
    world: tuple[Path, PythonHome], family: str, known: str
) -> None:
    folder, home = world
    done = home.run("agentcompass", "list", family, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = {row["id"]: row for row in json.loads(done.stdout)}
    assert rows[known]["origin"] == "compass-plugin 1.2.3"
    assert rows[known]["summary"][0].isupper()
    assert {row["origin"] for row in rows.values()} == {"built in", "compass-plugin 1.2.3"} or (
        family == "analyzer"
    )
    if family == "recipe":
        assert "plug_gone" not in rows
        assert BROKEN in done.stderr
        assert "it is left out" in done.stderr
    if family == "harness":
        assert "plug_number" not in rows
        assert "exports a int, not a Component; it is left out" in done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("quickstart", "plug_number", "scripted"), "harness: 'plug_number' from"),
        (("quickstart", "oracle", "scripted", "--recipe", "plug_gone"), f"recipe: {BROKEN}"),
    ],
)
def test_a_broken_one_that_is_asked_for_is_an_error_that_names_it(
    world: tuple[Path, PythonHome], words: tuple[str, ...], complaint: str
) -> None:
    folder, home = world
    done = home.run("agentcompass", "run", *words, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith(f"agentcompass: {complaint}")
    assert done.stderr.count("\n") == 1


def test_all_together_with_a_library_that_is_missing_then_named_then_installed(
    world: tuple[Path, PythonHome], prefect_home: Path
) -> None:
    """Needs the index: a real small library is installed from it."""
    folder, home = world
    more = ("--model-params", json.dumps(ANSWERS), "--progress", "none", "--json")
    env = {"PREFECT_HOME": str(prefect_home), "XDG_STATE_HOME": str(folder / "state")}

    def run(*words: str) -> tuple[int, str, str]:
        done = home.run("agentcompass", "run", *ALL, *more, *words, cwd=folder, **env)
        return done.returncode, done.stdout, done.stderr

    code, _, told = run()
    assert code == 3
    assert told == "agentcompass: benchmark: plug_roman needs roman; pip install 'roman<6,>=4'\n"

    code, _, told = run("--auto-install-dependencies", "--dry-run")
    assert code == 3, "a dry run installs nothing"

    code, out, told = run("--auto-install-dependencies")
    assert code == 0, told
    assert "agentcompass: installing roman<6,>=4" in told
    assert "agentcompass: installed: roman " in told
    assert list((home.root / "lib").rglob("roman.py")) or list((home.root / "lib").rglob("roman"))
    document = json.loads(out)
    assert document["metrics"]["headline"]["value"] == 1.0
    run_dir = Path(document["run_dir"])
    plan = json.loads((run_dir / "run.json").read_text())["plan"]
    origins = [plan[name]["origin"] for name in ("benchmark", "harness", "environment")]
    assert {*origins, plan["recipes"][0]["origin"]} == {"compass-plugin 1.2.3"}
    analysis = json.loads((run_dir / "analysis" / "plug_count.json").read_text())
    assert analysis["numbers"] == {"attempts": 2}
    assert BROKEN in (run_dir / "logs" / "run.log").read_text()
    (kept,) = (folder / "state").rglob("install-*.log")
    assert "roman" in kept.read_text()

    code, _, told = run("--dry-run")
    assert code == 0, told
