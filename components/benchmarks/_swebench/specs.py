"""How an instance's repository is installed and tested: Python, packages, commands.

Published with the `swebench` package (extra `swebench`), as tables by repository and version. They
are read as data, from its files: importing the package would load a `.env` file into this process
and a dozen libraries. What the data set's row or the user says goes before them; without the
package the test commands of the well-known repositories are known here.
"""

import posixpath
import re
import runpy
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from agentcompass.components.benchmarks._swebench.rows import Instance
from agentcompass.components.contracts.frozen import Frozen

PYTEST = "pytest -rA"
KNOWN_COMMANDS = {
    "astropy/astropy": "pytest -rA -vv -o console_output_style=classic --tb=no",
    "django/django": "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1",
    "matplotlib/matplotlib": PYTEST,
    "mwaskom/seaborn": "pytest --no-header -rA",
    "pallets/flask": PYTEST,
    "psf/requests": PYTEST,
    "pydata/xarray": PYTEST,
    "pylint-dev/pylint": PYTEST,
    "pytest-dev/pytest": PYTEST,
    "scikit-learn/scikit-learn": PYTEST,
    "sphinx-doc/sphinx": "tox --current-env -epy39 -v --",
    "sympy/sympy": "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' "
    "bin/test -C --verbose",
}
_NO_TEST = re.compile(r"(\.(json|png|txt|md|jpg|jpeg|pkl|yml|yaml|toml)|csv)$")
"""Files of a test patch that are no test modules (the official harness's list)."""
_LOCALE = re.compile(r"locale|\bexport L(ANG|ANGUAGE|C_ALL)=")
"""Steps that only choose a locale: tests run under C.UTF-8 here."""


class Spec(Frozen):
    python: str = ""
    """Version such as `3.9`; empty: the sandbox's own python3, without a virtual environment."""
    packages: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    """Paths of requirement files in the repository: the first one that is there is installed."""
    pip_packages: tuple[str, ...] = ()
    """Installed after `packages`; they pin."""
    before_install: tuple[str, ...] = ()
    install: tuple[str, ...] = ()
    """Run in the repository."""
    install_again: tuple[str, ...] = ()
    """Run once more after the submission was applied: what is compiled or copied must hold it."""
    before_tests: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    language: str = "py"


def spec_for(instance: Instance) -> Spec:
    """What is known about the instance's repository and version; empty fields: nothing."""
    known = _published(instance)
    changes: dict[str, Any] = {}
    if instance.test_command:
        changes["test_commands"] = (instance.test_command,)
    elif not known.test_commands and instance.repo in KNOWN_COMMANDS:
        changes["test_commands"] = (_with_tests(KNOWN_COMMANDS[instance.repo], instance),)
    if instance.install:
        changes["install"] = changes["install_again"] = (instance.install,)
    if instance.python:
        changes["python"] = instance.python
    return known.model_copy(update=changes)


def test_files(test_patch: str) -> list[str]:
    """Paths the test patch leaves behind, in its order."""
    return [path for path in re.findall(r"^diff --git a/.* b/(.*)$", test_patch, re.MULTILINE)]


def _published(instance: Instance) -> Spec:
    for language, tables in _tables().items():
        table: Mapping[str, Any] = tables["specs"]
        found = table.get(instance.repo, {}).get(instance.version)
        if found is not None:
            return _spec(found, instance, language, tables)
    return Spec()


def _spec(
    found: Mapping[str, Any], instance: Instance, language: str, tables: Mapping[str, Any]
) -> Spec:
    packages, requirements = found.get("packages", ""), ()
    if packages == "requirements.txt":
        packages, requirements = "", tuple(tables["requirements"].get(instance.repo, ()))
    elif packages == "environment.yml":  # a conda file; its pip pins are in pip_packages
        packages = ""
    commands = _lines(found.get("test_cmd", ()))
    if language == "py":
        commands = tuple(_with_tests(command, instance) for command in commands)
    install, build = _lines(found.get("install", ())), _lines(found.get("build", ()))
    return Spec(
        python=str(found.get("python", "")),
        packages=tuple(_words(packages)),
        requirements=requirements,
        pip_packages=tuple(found.get("pip_packages", ())),
        before_install=_lines(found.get("pre_install", ())),
        install=(*install, *build),
        install_again=install if language == "py" else build,
        before_tests=_lines(found.get("eval_commands", ())),
        test_commands=commands,
        language=language,
    )


def _with_tests(command: str, instance: Instance) -> str:
    """The command with the modules of the test patch, named as its runner wants them."""
    tests = [path for path in test_files(instance.test_patch) if not _NO_TEST.search(path)]
    if instance.repo == "django/django":
        tests = [
            path.removesuffix(".py").removeprefix("tests/").replace("/", ".") for path in tests
        ]
    return " ".join([command, *map(_quoted, tests)])


def _quoted(path: str) -> str:
    return path if re.fullmatch(r"[\w./-]+", path) else "'" + path.replace("'", "'\\''") + "'"


def _lines(value: Any) -> tuple[str, ...]:
    lines = (value,) if isinstance(value, str) else tuple(value)
    return tuple(line for line in lines if not _LOCALE.search(line))


def _words(packages: str) -> list[str]:
    import shlex

    return shlex.split(packages)


@cache
def _tables() -> dict[str, dict[str, Any]]:
    """Language → {specs, requirements} of the installed package; empty without it."""
    try:
        package = distribution("swebench")
    except PackageNotFoundError:
        return {}
    folder = Path(str(package.locate_file("swebench/harness/constants")))
    found = {}
    for path in sorted(folder.glob("[a-z]*.py")):
        names = runpy.run_path(str(path))
        specs = [names[name] for name in names if name.startswith("MAP_REPO_VERSION_TO_SPECS")]
        language = {"python": "py"}.get(path.stem, path.stem)
        if specs:
            requirements = names.get("MAP_REPO_TO_REQS_PATHS", {})
            found[language] = {"specs": specs[0], "requirements": requirements}
    return found


def requirement_paths(path: str, text: str) -> list[str]:
    """Other requirement files that one of this content at this path pulls in."""
    folder = posixpath.dirname(path)
    names = re.findall(r"^\s*(?:-r|--requirement)[ =]*(\S+)", text, re.MULTILINE)
    return [posixpath.normpath(posixpath.join(folder, name)) for name in names]
