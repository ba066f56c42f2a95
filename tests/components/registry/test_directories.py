"""Trusted directories of recipes: what is in them, what is hashed, what an edit does."""

import sys
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.recipe import RecipeContext
from agentcompass.components.contracts.task import Task
from agentcompass.components.registry import registry

RECIPE = '''"""Sets a variable."""
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.recipe import Match, RecipeParameters
{imports}
class Made:
    match = Match()
    def __init__(self, parameters): pass
    def adapt(self, task, context): return {{"env": {{"X": {value}}}}}
COMPONENT = Component(version="3", create=Made, parameters=RecipeParameters)
'''


def text(value: str = "'1'", imports: str = "") -> str:
    return RECIPE.format(value=value, imports=imports)


def value(name: str, folder: Path) -> str:
    component = registry.load("recipes", name, [str(folder)])
    made = registry.create("recipes", name, component, component.parameters())
    context = RecipeContext(
        benchmark="b", benchmark_params={}, harness="h", environment="e", model="m"
    )
    found = made.adapt(Task(id="t", instruction=""), context)["env"]["X"]
    assert isinstance(found, str)
    return found


def version(name: str, folder: Path) -> str:
    return registry.load("recipes", name, [str(folder)]).version


def test_files_and_packages_are_recipes_and_private_ones_are_shared(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(text())
    (tmp_path / "with_files").mkdir()
    (tmp_path / "with_files" / "__init__.py").write_text(text("VALUE", "from .inner import VALUE"))
    (tmp_path / "with_files" / "inner.py").write_text("VALUE = 'inner'\n")
    (tmp_path / "shares.py").write_text(text("VALUE", "from ._shared import VALUE"))
    (tmp_path / "_shared.py").write_text("VALUE = 'shared'\n")
    (tmp_path / "notes.txt").write_text("none")
    found = registry.listings("recipes", [str(tmp_path)])
    ours = {name: item.origin for name, item in found.items() if item.distribution is None}
    assert ours == {
        "plain": str(tmp_path / "plain.py"),
        "with_files": str(tmp_path / "with_files"),
        "shares": str(tmp_path / "shares.py"),
    }
    assert found["plain"].summary == "Sets a variable"
    given = {name: value(name, tmp_path) for name in ours}
    assert given == {"plain": "1", "with_files": "inner", "shares": "shared"}


def test_a_package_directory_itself_is_one_recipe(tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    folder.mkdir()
    (folder / "__init__.py").write_text(text("VALUE", "from .inner import VALUE"))
    (folder / "inner.py").write_text("VALUE = 'inner'\n")
    assert value("whole", folder) == "inner"


def test_an_edit_is_another_version_and_is_run_at_once(tmp_path: Path) -> None:
    file, shared = tmp_path / "edited.py", tmp_path / "_shared.py"
    file.write_text(text("'1' + VALUE", "from ._shared import VALUE"))
    shared.write_text("VALUE = 'a'\n")
    first = version("edited", tmp_path)
    assert first.startswith("3+")
    assert version("edited", tmp_path) == first
    assert value("edited", tmp_path) == "1a"
    file.write_text(text("'2' + VALUE", "from ._shared import VALUE"))  # as long, in one second
    second = version("edited", tmp_path)
    assert value("edited", tmp_path) == "2a"
    shared.write_text("VALUE = 'b'\n")
    third = version("edited", tmp_path)
    assert value("edited", tmp_path) == "2b"
    assert len({first, second, third}) == 3


def test_a_directory_that_moved_holds_the_same_versions_and_runs_from_its_own_place(
    tmp_path: Path,
) -> None:
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "moved.py").write_text(text("__file__"))
    here, there = tmp_path / "here", tmp_path / "there"
    assert version("moved", here) == version("moved", there)
    assert value("moved", here) == str(here / "moved.py")
    assert value("moved", there) == str(there / "moved.py")


def test_another_recipes_edit_is_not_this_ones(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(text())
    (tmp_path / "other.py").write_text(text())
    before = version("one", tmp_path)
    (tmp_path / "other.py").write_text(text("'9'"))
    assert version("one", tmp_path) == before


def test_nothing_is_written_into_the_directory_and_sys_path_stays(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(text())
    before = sys.path[:]
    assert value("plain", tmp_path) == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["plain.py"]
    assert sys.path == before


def test_the_same_directory_twice_is_one(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(text())
    twice = [str(tmp_path), str(tmp_path / ".." / tmp_path.name)]
    assert "plain" in registry.listings("recipes", twice)


def test_a_clash_names_both_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(text())
    with pytest.raises(RequestError) as caught:
        registry.listings("recipes", [str(tmp_path / "a"), str(tmp_path / "b")])
    assert str(tmp_path / "a" / "same.py") in str(caught.value)
    assert str(tmp_path / "b" / "same.py") in str(caught.value)


def test_other_families_come_from_no_directory(tmp_path: Path) -> None:
    (tmp_path / "gsm8k.py").write_text(text())
    assert registry.listings("benchmarks", [str(tmp_path)]) == registry.listings("benchmarks")


def test_a_directory_that_gives_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="holds no recipe"):
        registry.listings("recipes", [str(tmp_path)])
    for name in ("nowhere", "file"):
        with pytest.raises(RequestError, match=f"recipe-dir: .*{name} cannot be read"):
            registry.listings("recipes", [str(tmp_path / name)])
