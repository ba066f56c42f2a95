"""Write a small installable package with one component, its entry point and its test.

NAME/
  pyproject.toml         the entry point is here
  README.md
  src/NAME.py            the component
  tests/test_NAME.py
"""

import importlib.util
import keyword
import re
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from agentcompass import __version__
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.registry import registry
from agentcompass.components.registry.registry import Family

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TEMPLATES = Path(__file__).parent


@dataclass(frozen=True)
class Kind:
    family: Family
    run: str
    """A command that uses the new component."""


KINDS = {
    "benchmark": Kind("benchmarks", "agentcompass run {name} oracle scripted"),
    "harness": Kind("harnesses", "agentcompass run quickstart {name} scripted"),
    "environment": Kind("environments", "agentcompass run quickstart oracle scripted --env {name}"),
    "recipe": Kind("recipes", "agentcompass run quickstart oracle scripted --recipe {name}"),
    "analyzer": Kind("analyzers", "agentcompass run quickstart oracle scripted"),
}


def write_package(kind: str, name: str, directory: Path) -> tuple[Path, tuple[str, ...]]:
    """The new folder, and the commands that install, test and use it. RequestError for a bad name.

    All or nothing: the folder appears when it is complete.
    """
    check_name(kind, name)
    folder = directory / name
    if folder.exists() or folder.is_symlink():
        raise RequestError("name", f"{folder} exists already", "choose another name or --directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        unfinished = directory / f".{name}-{secrets.token_hex(4)}"
        unfinished.mkdir()
        try:
            for path, text in _files(kind, name).items():
                (unfinished / path).parent.mkdir(exist_ok=True)
                (unfinished / path).write_text(text, encoding="utf-8")
            unfinished.rename(folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    except OSError as error:
        raise RequestError("directory", f"{directory}: {error.strerror or error}") from None
    return folder, (
        f"pip install -e {folder}",
        f"pytest {folder}",
        KINDS[kind].run.format(name=name),
    )


def check_name(kind: str, name: str) -> None:
    """A name that works as component, module and distribution at once."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise RequestError(
            "name",
            f"{name!r} cannot be a module's name",
            "start with a small letter; then small letters, digits and _",
        )
    known = registry.listings(KINDS[kind].family)
    if name in known:
        raise RequestError("name", f"the {kind} {name!r} is there already ({known[name].origin})")
    if name in sys.stdlib_module_names or _importable(name):
        raise RequestError("name", f"a module {name!r} is there already", "choose another name")


def _files(kind: str, name: str) -> dict[str, str]:
    return {
        "pyproject.toml": _PROJECT.format(
            name=name,
            kind=kind,
            group=f"agentcompass.{KINDS[kind].family}",
            version=__version__,
        ),
        "README.md": _README.format(name=name, kind=kind, run=KINDS[kind].run.format(name=name)),
        f"src/{name}.py": _own(kind, kind, name),
        f"tests/test_{name}.py": _own(f"test_{kind}", kind, name),
    }


def _own(template: str, kind: str, name: str) -> str:
    """A template's text in the user's names."""
    component = (_TEMPLATES / f"{kind}.py").read_text(encoding="utf-8")
    class_name = name.title().replace("_", "")
    if re.search(rf"\b{class_name}", component):  # the contracts have one of that name
        class_name = f"My{class_name}"
    text = (_TEMPLATES / f"{template}.py").read_text(encoding="utf-8")
    text = text.replace(f"{__package__}.{kind}", name)
    text = re.sub(r"\bExample(?=Parameters\b|Sandbox\b|\b)", class_name, text)
    return re.sub(r'(?<=[."])example\b', name, text)


def _importable(name: str) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return True
    return spec is not None and spec.origin is not None  # a mere folder is no module


_PROJECT = """\
[build-system]
requires = ["hatchling>=1.27,<2"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "A {kind} for AgentCompass."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["agentcompass>={version}"]

# Libraries that only some runs need: name their modules in COMPONENT (`requires=("module",)`,
# `extra="more"`), and they are asked for, or installed, before a run that needs them.
# [project.optional-dependencies]
# more = ["some-library>=1,<2"]

[project.entry-points."{group}"]
{name} = "{name}:COMPONENT"

[tool.hatch.build.targets.wheel]
only-include = ["src/{name}.py"]
sources = ["src"]
dev-mode-dirs = ["src"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

_README = """\
# {name}

A {kind} for AgentCompass. It is all in `src/{name}.py`.

```
pip install -e .
pytest
{run}
```

Change `version` in `COMPONENT` whenever results may change: a run takes over the results of an
earlier one (`--reuse`) only if the versions are the same.
"""
