"""`agentcompass new`: what it writes is installed, passes its test and runs, without editing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass.cli.new import KINDS
from tests.cli.conftest import Cli
from tests.standins.python_home import PythonHome, python_home

NAMES = {kind: f"my_{kind}" for kind in KINDS}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PythonHome]:
    """A package of every kind, installed in an environment of its own."""
    folder = tmp_path_factory.mktemp("new")
    home = python_home(folder / "venv")
    for kind, name in NAMES.items():
        done = home.run("agentcompass", "new", kind, name, "--directory", "mine", cwd=folder)
        assert done.returncode == 0, done.stderr
    projects = [word for name in NAMES.values() for word in ("-e", f"mine/{name}")]
    home.install("--no-deps", *projects, cwd=folder)
    return folder, home


def test_their_tests_pass(written: tuple[Path, PythonHome]) -> None:
    folder, home = written
    for name in NAMES.values():
        done = home.run("pytest", "-q", f"mine/{name}", cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr


def test_they_run(written: tuple[Path, PythonHome], prefect_home: Path) -> None:
    folder, home = written

    def run(*words: str) -> Path:
        done = home.run(
            "agentcompass", "run", *words, "--progress", "none", "--json",
            cwd=folder, PREFECT_HOME=str(prefect_home),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        if "my_benchmark" in words:
            assert document["metrics"]["headline"]["value"] == 1.0
        return Path(document["run_dir"])

    run("my_benchmark", "oracle", "scripted")
    run_dir = run(
        "quickstart", "my_harness", "scripted", "--env", "my_environment",
        "--recipe", "my_recipe", "--benchmark-params", '{"limit": 1}',
    )  # fmt: skip
    plan = json.loads((run_dir / "run.json").read_text())["plan"]
    assert [one["origin"] for one in plan["recipes"]] == ["my_recipe 0.1.0"]
    assert plan["harness"]["origin"] == "my_harness 0.1.0"
    numbers = json.loads((run_dir / "analysis" / "my_analyzer.json").read_text())["numbers"]
    assert numbers == {"attempts": 1, "without_tools": 1}


def test_the_recipe_also_works_as_a_file_of_a_trusted_directory(
    written: tuple[Path, PythonHome], cli: Cli
) -> None:
    folder, _ = written
    sources = str(folder / "mine" / "my_recipe" / "src")
    answer = cli("run", "quickstart", "oracle", "scripted", "--dry-run", "--recipe-dir", sources)
    assert answer.code == 0, answer.err
    assert f"{sources}/my_recipe.py" in answer.out


def test_the_next_commands_are_printed(cli: Cli, home: Path) -> None:
    assert cli("new", "benchmark", "tiny_bench").out.splitlines() == [
        "tiny_bench/ is written. Next:",
        "  pip install -e tiny_bench",
        "  pytest tiny_bench",
        "  agentcompass run tiny_bench oracle scripted",
    ]
    files = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    assert files == {
        "tiny_bench/README.md",
        "tiny_bench/pyproject.toml",
        "tiny_bench/src/tiny_bench.py",
        "tiny_bench/tests/test_tiny_bench.py",
    }


def test_a_name_the_code_itself_uses_makes_no_clash(cli: Cli, home: Path) -> None:
    for kind in KINDS:
        for name in ("task", "component", "recipe", "sandbox", "harness_parameters"):
            assert cli("new", kind, name, "--directory", kind).code == 0
    for path in home.rglob("*.py"):
        assert "Example" not in path.read_text()
        assert "templates" not in path.read_text()
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F", str(home)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("benchmark", "9lives"), "name: '9lives' cannot be a module's name"),
        (("benchmark", "my-bench"), "name: 'my-bench' cannot be a module's name"),
        (("benchmark", "MyBench"), "name: 'MyBench' cannot be a module's name"),
        (("benchmark", "../up"), "name: '../up' cannot be a module's name"),
        (("benchmark", "class"), "name: 'class' cannot be a module's name"),
        (("benchmark", "x" * 65), "cannot be a module's name"),
        (("benchmark", "gsm8k"), "name: the benchmark 'gsm8k' is there already (built in)"),
        (("analyzer", "json"), "name: a module 'json' is there already"),
        (("analyzer", "pydantic"), "name: a module 'pydantic' is there already"),
        (("bench", "mine"), "'bench' is none of benchmark, harness, environment, recipe, analyzer"),
        (("recipe", "mine", "--directory", "file"), "directory: file: File exists"),
        (("recipe", "taken"), "name: taken exists already"),
    ],
)
def test_what_cannot_be_is_one_line_and_writes_nothing(
    cli: Cli, home: Path, words: tuple[str, ...], complaint: str
) -> None:
    (home / "file").write_text("")
    (home / "taken").mkdir()
    before = sorted(home.rglob("*"))
    answer = cli("new", *words)
    assert answer.code == 2
    assert complaint in answer.complaint
    assert sorted(home.rglob("*")) == before


def test_a_full_disk_leaves_no_half_of_it(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def fail(path: Path, text: str, *args: str, **more: str) -> int:
        if path.name.startswith("test_"):
            raise OSError(28, "No space left on device")
        return write(path, text, *args, **more)

    monkeypatch.setattr(Path, "write_text", fail)
    answer = cli("new", "recipe", "mine")
    assert (answer.code, answer.complaint) == (2, "directory: .: No space left on device")
    assert list(home.iterdir()) == []
