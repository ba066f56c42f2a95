"""Directories of recipes: trusted when the user says so, never because a project does."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.execution.fingerprint import fingerprint
from agentcompass.components.execution.plan import resolve
from agentcompass.components.execution.request import RunOptions, build_request
from tests.cli.conftest import Cli

RECIPE = '''"""Sets a variable for quickstart."""
from pathlib import Path
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.recipe import Match, RecipeParameters
Path({mark!r}).write_text("loaded")
class Made:
    match = Match(benchmarks=("quickstart",))
    def __init__(self, parameters): pass
    def adapt(self, task, context): return {{"env": {{"FROM_RECIPE": "{value}"}}}}
COMPONENT = Component(version="1", create=Made, parameters=RecipeParameters)
'''
RUN = ("run", "quickstart", "oracle", "scripted", "--dry-run", "--json")


class Folder:
    """A directory with the recipe `own`, and the mark it leaves when its code is run."""

    def __init__(self, root: Path) -> None:
        self.path, self.mark = root / "recipes", root / "mark"
        self.path.mkdir(parents=True)
        self.write("1")

    def write(self, value: str) -> None:
        text = RECIPE.format(mark=str(self.mark), value=value)
        (self.path / "own.py").write_text(text, encoding="utf-8")

    @property
    def loaded(self) -> bool:
        return self.mark.exists()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "elsewhere")


def user_config(home: Path, text: str) -> Path:
    path = home.parent / "config" / "agentcompass" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def planned(answer: Any) -> list[dict[str, str]]:
    assert answer.code == 0, answer.err
    recipes: list[dict[str, str]] = json.loads(answer.out)["plan"]["recipes"]
    return recipes


def test_a_recipe_of_a_directory_matches_and_its_path_and_content_stand_in_the_plan(
    cli: Cli, folder: Folder
) -> None:
    answer = cli(*RUN, "--recipe-dir", str(folder.path))
    (recipe,) = planned(answer)
    assert recipe["id"] == "own"
    assert recipe["origin"] == str(folder.path / "own.py")
    assert recipe["version"].startswith("1+")
    assert "FROM_RECIPE" in answer.out
    text = cli(*RUN[:-1], "--recipe-dir", str(folder.path)).out
    assert f"recipe       own (version {recipe['version']}, {recipe['origin']})" in text
    folder.write("2")
    (edited,) = planned(cli(*RUN, "--recipe-dir", str(folder.path)))
    assert edited["version"] != recipe["version"]


def test_an_edited_recipe_is_another_fingerprint(cli: Cli, folder: Folder) -> None:
    options = RunOptions("quickstart", "oracle", "scripted", recipe_dirs=(str(folder.path),))
    request, _ = build_request(options)
    before = fingerprint(resolve(request))
    assert fingerprint(resolve(request)) == before
    folder.write("2")
    assert fingerprint(resolve(request)) != before


def test_a_relative_directory_is_meant_from_here(cli: Cli, home: Path) -> None:
    folder = Folder(home)
    (recipe,) = planned(cli(*RUN, "--recipe-dir", "recipes"))
    assert recipe["origin"] == str(folder.path / "own.py")


@pytest.mark.parametrize("how", ["user", "config"])
def test_the_users_own_file_may_trust_a_directory(
    cli: Cli, home: Path, folder: Folder, how: str
) -> None:
    text = f"runtime: {{recipe_dirs: ['{folder.path}']}}\n"
    more: tuple[str, ...] = ()
    if how == "user":
        user_config(home, text)
    else:
        (home / "mine.yaml").write_text(text)
        more = ("--config", "mine.yaml")
    assert [one["id"] for one in planned(cli(*RUN, *more))] == ["own"]
    if how == "user":
        assert str(folder.path / "own.py") in cli("list", "recipe").out
    other = Folder(home.parent / "other")
    (other.path / "own.py").rename(other.path / "another.py")
    both = planned(cli(*RUN, *more, "--recipe-dir", str(other.path)))
    assert [one["id"] for one in both] == ["another", "own"]


@pytest.mark.parametrize("where", ["user", "config"])
def test_a_configuration_names_no_relative_directory(cli: Cli, home: Path, where: str) -> None:
    """It would be a folder of whatever project is the current one."""
    folder, text = Folder(home), "runtime: {recipe_dirs: [recipes]}\n"
    more: tuple[str, ...] = ()
    if where == "user":
        user_config(home, text)
    else:
        (home / "mine.yaml").write_text(text)
        more = ("--config", "mine.yaml")
    answer = cli(*RUN[:-1], *more)
    assert answer.code == 2
    assert "'recipes' is not absolute" in answer.complaint
    assert not folder.loaded


@pytest.mark.parametrize(
    "command",
    [
        RUN[:-1],
        ("list", "recipe"),
        ("config", "show"),
        ("launch", "launch.yaml", "--dry-run"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else str(words),
)
@pytest.mark.parametrize(
    "says",
    [
        "runtime: {{recipe_dirs: ['{folder}']}}",
        "runtime: {{recipe_dirs: [./recipes]}}",
        "runtime: {{auto_install_dependencies: true}}",
    ],
)
def test_a_cloned_project_never_causes_code_to_load(
    cli: Cli, home: Path, command: tuple[str, ...], says: str
) -> None:
    (home / ".git").mkdir()
    folder = Folder(home)
    (home / "agentcompass.yaml").write_text(says.format(folder=folder.path) + "\n")
    (home / "launch.yaml").write_text(
        "version: 1\nrequests: [{benchmark: quickstart, harness: oracle, model: scripted}]\n"
    )
    answer = cli(*command)
    assert answer.code == 2
    assert "a project's file cannot say which code is loaded" in answer.complaint
    assert not folder.loaded


def test_nor_does_a_launch_file(cli: Cli, home: Path, folder: Folder) -> None:
    (home / "launch.yaml").write_text(
        f"version: 1\nruntime: {{recipe_dirs: ['{folder.path}']}}\n"
        "requests: [{benchmark: quickstart, harness: oracle, model: scripted}]\n"
    )
    answer = cli("launch", "launch.yaml", "--dry-run")
    assert answer.code == 2
    assert "recipe_dirs: unknown key" in answer.complaint
    assert not folder.loaded
    trusting = cli("launch", "launch.yaml", "--dry-run", "--recipe-dir", str(folder.path))
    assert trusting.code == 2  # the file is still wrong
    (home / "launch.yaml").write_text(
        "version: 1\nrequests: [{benchmark: quickstart, harness: oracle, model: scripted}]\n"
    )
    answer = cli("launch", "launch.yaml", "--dry-run", "--recipe-dir", str(folder.path))
    assert answer.code == 0, answer.err
    assert "recipe       own" in answer.out


def test_a_broken_recipe_is_named_and_left_out_and_an_error_when_asked_for(
    cli: Cli, folder: Folder
) -> None:
    (folder.path / "bad.py").write_text("import not_there_at_all\n")
    more = ("--recipe-dir", str(folder.path))
    assert [one["id"] for one in planned(cli(*RUN, *more))] == ["own"]
    listed = cli("list", "recipe", *more)
    assert (listed.code, "bad" in listed.out.split()) == (0, False)
    assert "'bad'" in listed.complaint
    assert "No module named 'not_there_at_all'; it is left out" in listed.complaint
    asked = cli(*RUN[:-1], *more, "--recipe", "bad")
    assert asked.code == 2
    assert str(folder.path / "bad.py") in asked.complaint


def test_json_lists_origins(cli: Cli, folder: Folder) -> None:
    rows = json.loads(cli("list", "recipe", "--json", "--recipe-dir", str(folder.path)).out)
    (own,) = [row for row in rows if row["id"] == "own"]
    assert own == {
        "id": "own",
        "origin": str(folder.path / "own.py"),
        "summary": "Sets a variable for quickstart",
    }
