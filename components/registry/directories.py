"""Trusted directories: folders of recipes that the user vouches for.

    my_recipes/
      bigger_image.py        the recipe `bigger_image`: ends in COMPONENT = Component(…)
      with_cache/            the recipe `with_cache`: __init__.py exports COMPONENT
      _shared.py             no recipe; the others say `from . import _shared`

A directory whose own `__init__.py` exports COMPONENT is one recipe, named as the directory. Files
are hashed with what they may import from here, so that an edited recipe is another version and
is loaded anew, even in a process that has loaded it before.
"""

import hashlib
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.registry.listing import Listing, summary

FIELD = "recipe-dir"
PREFIX = "_agentcompass_recipes_"
_EXPORTS = re.compile(r"^COMPONENT\b", re.MULTILINE)


def trusted(directories: Sequence[str]) -> list[Listing]:
    """The recipes of these directories, in order. None of their code is run."""
    folders = dict.fromkeys(user_path(name, FIELD).resolve() for name in directories)
    return [
        Listing(path.stem, str(path), summary(path), str(path), path=path)
        for folder in folders
        for path in _recipes(folder)
    ]


def load_module(path: Path) -> ModuleType:
    """Run a recipe's file, unless this content of it was run before. Whatever goes wrong rises."""
    # Where it stands, too: it may import what lies beside it, and open it by __file__.
    place = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    package = f"{PREFIX}{place}_{content_hash(path)}"
    if package not in sys.modules:
        module = ModuleType(package)
        module.__path__ = [str(path.parent)]
        sys.modules[package] = module
    if not any(isinstance(finder, _TrustedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TrustedFinder())
    return importlib.import_module(f"{package}.{path.stem}")


def content_hash(path: Path) -> str:
    """Of the recipe's file or package and what it may share with others there, wherever it is."""
    digest = hashlib.sha256()
    private = () if (path.parent / "__init__.py").exists() else path.parent.glob("_*")
    for top in (path, *sorted(private)):
        for file in _files(top):
            content = file.read_bytes()
            name = str(file.relative_to(path.parent)).encode("utf-8", "surrogateescape")
            digest.update(name + b"\0%d\0" % len(content) + content)
    return digest.hexdigest()[:16]


def _recipes(folder: Path) -> list[Path]:
    try:
        own = folder / "__init__.py"
        if own.is_file() and _EXPORTS.search(own.read_text(encoding="utf-8", errors="replace")):
            return [folder]
        found = [
            path
            for path in sorted(folder.iterdir())
            if not path.name.startswith(("_", "."))
            and (path.suffix == ".py" or (path / "__init__.py").is_file())
        ]
    except OSError as error:
        raise RequestError(FIELD, f"{folder} cannot be read: {error.strerror}") from None
    if not found:
        raise RequestError(FIELD, f"{folder} holds no recipe", "a recipe is a file NAME.py there")
    return found


def _files(top: Path) -> Iterator[Path]:
    if top.is_file():
        yield top
    elif top.is_dir() and top.name != "__pycache__":
        for path in sorted(top.iterdir()):
            if not path.name.startswith("."):
                yield from _files(path)


class _TrustedFinder(MetaPathFinder):
    """Finds the modules of trusted directories, by the names `load_module` gives them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(PREFIX):
            return None
        for entry in path or ():
            if spec := FileFinder(entry, (_FreshSource, [".py"])).find_spec(name):
                return spec
        return None


class _FreshSource(SourceFileLoader):
    """Reads no compiled file and leaves none: two edits in one second can look the same to it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)
