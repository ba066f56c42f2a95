"""Telling "looked" from "used": does what an agent was shown come back in its work?

Only what it had not seen elsewhere counts: a line that an ordinary command, or the task, showed
first proves nothing.
"""

import re
from collections.abc import Iterable, Iterator

from agentcompass.components.analyzers._actions import Action
from agentcompass.components.analyzers._outcomes import failed
from agentcompass.components.analyzers._own import placed, scratch
from agentcompass.components.analyzers._written import changes

_SHORTEST_LINE = 10
_MOST_LINES = 20_000
_MOST_OWN = 100_000
_TAKING = frozenset(["cp", "mv", "install", "rsync", "ln", "patch", "tee"])


class Traces:
    """Of one attempt."""

    def __init__(self, instruction: str, needed_chars: int) -> None:
        self._needed = needed_chars
        self._unread = [instruction]
        self._innocent: set[str] = set()
        self._shown: set[str] = set()
        self._places: set[str] = set()
        self._own = ""

    def innocent(self, text: str) -> None:
        self._unread.append(text)  # its lines matter only once something is shown

    def wrote(self, action: Action) -> None:
        """What the agent wrote before it looked is its own, also as part of a script."""
        for change in changes(action):
            self.innocent(change.text)
            if len(self._own) + len(change.text) < _MOST_OWN:
                self._own += f"{_flat(change.text)}\n"

    def shown(self, text: str) -> None:
        """What looking where one should not brought to light."""
        for innocent in self._unread:
            self._innocent.update(_lines(innocent))
        self._unread.clear()
        if len(self._shown) < _MOST_LINES:
            new = {line for line in _lines(text) if line not in self._innocent}
            self._shown.update(line for line in new if line not in self._own)

    def place(self, path: str, action: Action) -> None:
        """A file or folder that holds such things from now on."""
        path = placed(path, action)
        if path not in ("", ".", "/", "/tmp"):
            self._places.add(path.rstrip("/"))

    def touches(self, action: Action) -> bool:
        """It reads from such a place."""
        words = [w for command in action.commands for w in (*command.words, *command.inputs)]
        return any(self._inside(word, action) for word in (*words, action.path))

    def used_by(self, action: Action) -> str | None:
        """Why this action puts such things into the work; None: it does not."""
        if not (self._shown or self._places):
            return None
        for command in action.commands:
            takes = command.program in _TAKING or command.argv[:2] in (
                ("git", "apply"),
                ("git", "am"),
            )
            words = (*command.words, *command.inputs)
            if takes and any(self._inside(word, action) for word in words):
                if failed(action, command):
                    continue
                if command.program in ("cp", "mv", "tee") and scratch(words[-1]):
                    self.place(words[-1], action)
                    continue
                return " ".join(command.argv)
        for change in changes(action):
            if scratch(change.path) or failed(action, change.by, change.path):
                continue
            if (line := self.in_text(change.text)) is not None:
                return f"wrote to {change.path}: {line}"
        return None

    def in_text(self, text: str) -> str | None:
        """The longest such line in the text, if there is enough of them."""
        if not text or not self._shown:
            return None
        found = {line for line in _lines(text) if line in self._shown}
        if not found and len(text) < 4_000:  # `sed -i 's/old/new/'`, a line with more around it
            flat = _flat(text)
            found = {line for line in self._shown if len(line) >= self._needed and line in flat}
        if sum(map(len, found)) < self._needed:
            return None
        return max(found, key=lambda line: (len(line), line))

    def _inside(self, path: str, action: Action) -> bool:
        path = placed(path, action) if self._places else path
        return any(path == place or path.startswith(place + "/") for place in self._places)


_NUMBERED = re.compile(r"^\s*\d+\s*[\t:|→-]\s?")


def _lines(text: str) -> Iterator[str]:
    """Lines that say something, without a diff's `+`, line numbers and blanks."""
    for line in _cut(text.splitlines()):
        if line.startswith(("---", "+++", "-")):
            continue
        plain = _flat(_NUMBERED.sub("", line[1:] if line.startswith("+") else line))
        if len(plain) >= _SHORTEST_LINE and sum(map(str.isalnum, plain)) >= 6:
            yield plain


def _cut(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number >= _MOST_LINES:
            return
        yield line[:1_000]


def _flat(text: str) -> str:
    return " ".join(text.split())
