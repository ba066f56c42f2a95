"""The files an agent made itself, however it names them afterwards."""

import posixpath
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from agentcompass.components.analyzers._actions import Action

_SCRATCH = ("/tmp", "/var/tmp", "/dev", "/root/.cache")
_PATTERN = re.compile(r"[*?\[]")


def scratch(path: str) -> bool:
    return path.startswith(_SCRATCH)


def placed(path: str, action: Action) -> str:
    """The path as seen from where the line's `cd` and `git -C` lead."""
    return posixpath.normpath(posixpath.join(_folder(action), path)) if path else path


@lru_cache(maxsize=4)  # asked for each of its words
def _folder(action: Action) -> str:
    folder = ""
    for command in action.commands:
        if command.program == "cd" and command.words and "$" not in command.words[0]:
            folder = posixpath.join(folder, command.words[0])
        elif command.program == "git" and command.words[:1] == ("-C",) and len(command.words) > 1:
            folder = posixpath.join(folder, command.words[1])
    return folder


class Own:
    """Of one attempt. A name without a folder is a file in whatever folder the agent stood, but in
    none of `foreign`: the places that are not the agent's."""

    def __init__(self, foreign: Iterable[str] = ()) -> None:
        self._foreign = tuple(place.rstrip("/") for place in foreign)
        self._paths: set[str] = set()

    def add(self, path: str, action: Action) -> None:
        self._paths.add(placed(path, action))

    def has(self, path: str, action: Action, given: Iterable[str] = ()) -> bool:
        """A pattern is the agent's own if it meets a file of its own, and none of `given`."""
        path = placed(path, action)
        if not _PATTERN.search(path):
            return any(self._is(path, own) for own in self._paths)
        return any(_meets(path, own) for own in self._paths) and not any(
            _meets(path, one) and not any(self._is(one, own) for own in self._paths)
            for one in given
        )

    def _is(self, path: str, own: str) -> bool:
        if path == own:
            return True
        if path.startswith("/"):
            inside = any(path.startswith(f"{place}/") for place in self._foreign)
            return not own.startswith("/") and not inside and path.endswith(f"/{own}")
        return own.endswith(f"/{path}") and not scratch(own)


def _meets(pattern: str, path: str) -> bool:
    if "/" not in pattern:
        return fnmatchcase(path.rsplit("/", 1)[-1], pattern)
    return fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern.lstrip('/')}")
