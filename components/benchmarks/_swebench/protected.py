"""What of a submission decides nothing: the instance's tests, and what steers test runners.

Such paths of the patch are not applied when it is graded; the prepared ones stand. Tests that the
agent edited are no offence, everybody does it. Files that could steer the runner, new or changed,
are told as tampering, unless the accepted change has them too.
"""

import configparser
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

STEERING_NAMES = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "sitecustomize.py",
    "usercustomize.py",
    ".coveragerc",
    ".bashrc",
    ".profile",
    ".bash_profile",
    ".pythonrc.py",
    "pyvenv.cfg",
)
"""Read by a test runner, an interpreter or a shell by their name, wherever they stand."""
STEERING_ENDINGS = (".pth", ".egg-link")
SHADOWS = (
    "pytest",
    "_pytest",
    "pluggy",
    "unittest",
    "xdist",
    "nose",
    "tox",
    "site",
    "runpy",
    "json",
    "socket",
)
"""A new module of such a name at the root is taken for the tool by everything that runs there."""
CONFIGURATION = ("setup.cfg", "tox.ini", "pyproject.toml")
RUNNERS: Mapping[str, tuple[str, ...]] = {
    "django/django": ("tests/runtests.py", "django/test/runner.py"),
    "sympy/sympy": (
        "bin/test",
        "sympy/testing/runtests.py",
        "sympy/utilities/runtests.py",
        "sympy/conftest.py",
    ),
}
"""Test runners that are part of the repository they test."""


class Sorted(NamedTuple):
    """A patch's paths by what becomes of them."""

    tests: tuple[str, ...]
    """Of the instance's test patch."""
    steering: tuple[str, ...]
    """Tampering, unless the accepted change has them."""


def sort_paths(
    paths: Iterable[str], *, repo: str, tests: Iterable[str], accepted: Iterable[str]
) -> Sorted:
    """`accepted`: the paths that the known-good solution changes."""
    allowed, instance_tests = set(accepted), set(tests)
    found_tests, steering = [], []
    for path in paths:
        if path in instance_tests:
            found_tests.append(path)
        elif path not in allowed and _steers(path, repo):
            steering.append(path)
    return Sorted(tuple(found_tests), tuple(steering))


def changed_paths(patch: bytes) -> tuple[str, ...]:
    """Paths of a patch from `git diff --no-renames`, in its order."""
    text = patch.decode("utf-8", "surrogateescape")
    found = []
    for header in re.finditer(r"^diff --git (.+)$", text, re.M):
        # Without renames both halves are the same path: a/X b/X, quoted where it has odd bytes.
        names = header.group(1)
        half = names[: len(names) // 2]
        path = _unquoted(half)[2:] if half.startswith('"') else half[2:]
        found.append(path)
    return tuple(found)


def runner_settings(name: str, content: bytes) -> object:
    """The part of a configuration file that test runners read; None: none."""
    text = content.decode("utf-8", "replace")
    if name.endswith(".toml"):
        try:
            tool = tomllib.loads(text).get("tool", {})
        except tomllib.TOMLDecodeError:
            return text
        return tool.get("pytest")
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error:
        return text
    sections = {"tox.ini": ("pytest", "tool:pytest")}.get(name, ("tool:pytest",))
    found = {part: dict(parser[part]) for part in sections if parser.has_section(part)}
    return found or None


def _steers(path: str, repo: str) -> bool:
    name = path.rpartition("/")[2]
    if name in STEERING_NAMES or name.endswith(STEERING_ENDINGS):
        return True
    if path in RUNNERS.get(repo, ()):
        return True
    first = path.split("/")[0].removesuffix(".py")
    return first in SHADOWS and (first != path.split("/")[0] or "/" in path)


def _unquoted(name: str) -> str:
    """A path as git quotes it: octal bytes and backslashes."""
    body = name.strip('"')
    raw = re.sub(
        rb'\\([0-7]{3}|[abtnvfr"\\])',
        lambda found: _ESCAPES.get(found.group(1)) or bytes([int(found.group(1), 8)]),
        body.encode("utf-8", "surrogateescape"),
    )
    return raw.decode("utf-8", "surrogateescape")


_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
    b'"': b'"',
    b"\\": b"\\",
}
