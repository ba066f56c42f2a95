"""As much of a terminal as the live display uses: what is on the screen after it wrote."""

import re
from dataclasses import dataclass

_PARTS = re.compile(r"\x1b\[[\d;]*m|\x1b\[(\d*)([A-Za-z])|(.)", re.DOTALL)


@dataclass
class _Line:
    text: str = ""
    goes_on: bool = False
    """It was too long and wrapped: joined with the next when the terminal becomes wider. Only
    erasing the whole line ends that, as in tmux."""


class Screen:
    """Lines without end (a terminal's history included)."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._lines = [_Line()]
        self._row = self._column = 0

    @property
    def lines(self) -> list[str]:
        return [line.text.rstrip() for line in self._lines if line.text.strip()]

    def resize(self, width: int) -> None:
        """Lines that no longer fit wrap, as terminals do it; the cursor stays where it was."""
        assert self._column == 0, "the cursor is left at a line's beginning"
        assert not self._lines[self._row].text, "and in a line of its own"
        above, below = self._lines[: self._row], self._lines[self._row + 1 :]
        wrapped = _wrapped(above, width)
        self.width, self._row = width, len(wrapped)
        self._lines = [*wrapped, _Line(), *_wrapped(below, width)]

    def receive(self, text: str) -> None:
        for number, command, character in _PARTS.findall(text):
            if command:
                self._command(command, int(number or 0))
            elif character:
                self._put(character)

    def _command(self, command: str, number: int) -> None:
        line = self._lines[self._row]
        if command == "A":
            self._row = max(self._row - number, 0)
        elif command == "K" and number == 2:
            self._lines[self._row] = _Line()
            if self._row:
                self._lines[self._row - 1].goes_on = False
        elif command in "KJ" and not number:
            line.text = line.text[: self._column]
            if command == "J":
                del self._lines[self._row + 1 :]
        else:
            raise AssertionError(f"an unexpected command: {number}{command}")

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._row, self._column = self._row + 1, 0
        else:
            if self._column == self.width:
                self._lines[self._row].goes_on = True
                self._row, self._column = self._row + 1, 0
                self._reach()
            line = self._lines[self._row]
            before = line.text.ljust(self._column)
            line.text = before[: self._column] + character + before[self._column + 1 :]
            self._column += 1
        self._reach()

    def _reach(self) -> None:
        while len(self._lines) <= self._row:
            self._lines.append(_Line())


def _wrapped(lines: list[_Line], width: int) -> list[_Line]:
    whole, begun = [], ""
    for line in lines:
        begun += line.text
        if not line.goes_on:
            whole.append(begun)
            begun = ""
    if begun:
        whole.append(begun)
    found = []
    for text in whole:
        starts = range(0, max(len(text), 1), width)
        found += [_Line(text[n : n + width], goes_on=n != starts[-1]) for n in starts]
    return found
