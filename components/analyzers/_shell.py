"""A command line taken apart: which programs it runs, with which words, writing which files.

Good enough to tell `git log --all` from `echo "git log --all"` and from `grep -r 'git log'`;
it expands nothing. A line it cannot follow (an open quote) is read as far as it goes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

LONGEST = 50_000
"""Characters of a command line that are read."""
_DEEPEST = 4
_LONGEST_PIPE = 50
_KEYWORDS = frozenset(["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"])
_WRAPPERS = {
    "sudo": ("-u", "-g", "-h", "-C", "-p"), "env": ("-u", "-C"), "nice": ("-n",), "stdbuf": (),
    "nohup": (), "exec": ("-a",), "command": (), "builtin": (), "watch": ("-n",),
    "timeout": ("-k", "-s"), "xargs": ("-n", "-I", "-P", "-L", "-d", "-a"),
}  # fmt: skip
"""Programs that run the one named behind them, and their options that take a value."""
_SHELLS = frozenset(["bash", "sh", "zsh", "dash", "ash"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    """Words without quotes; the program is the last part of its path."""
    outputs: tuple[str, ...] = ()
    """Files that `>` and `>>` send its output to."""
    appended: tuple[str, ...] = ()
    """Those of them that it only adds to."""
    inputs: tuple[str, ...] = ()
    """Files that `<` reads."""
    stdin: str = ""
    """A here-document or here-string."""
    into: tuple[tuple[str, ...], ...] = ()
    """The commands further on in its pipeline; the first 50."""

    @property
    def program(self) -> str:
        return self.argv[0]

    @property
    def words(self) -> tuple[str, ...]:
        return self.argv[1:]


def commands(line: str, depth: int = 0) -> tuple[Command, ...]:
    """Every program the line runs, those inside `$(…)`, `bash -c '…'` and pipes included."""
    if depth > _DEEPEST:
        return ()
    reader = _Reader(line[:LONGEST].replace("\\\n", " "))
    reader.read()
    found: list[Command] = []
    for pipeline in reader.pipelines:
        taken = [one for raw in pipeline if (one := _unwrapped(raw)) is not None]
        for number, one in enumerate(taken):
            following = tuple(
                later.argv for later in taken[number + 1 : number + 1 + _LONGEST_PIPE]
            )
            command = Command(
                one.argv, tuple(one.outputs), tuple(one.appended), tuple(one.inputs), one.stdin,
                following,
            )  # fmt: skip
            found.append(command)
            found.extend(_inside(command, depth))
    for inner in reader.substitutions:
        found.extend(commands(inner, depth + 1))
    return tuple(found)


def git_verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """Git's subcommand and its words, past git's own options."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-C", "-c", "--git-dir", "--work-tree") and rest:
            rest.pop(0)
    return (rest[0], rest[1:]) if rest else ("", [])


def _inside(command: Command, depth: int) -> Iterator[Command]:
    """`bash -c '…'` and `bash <<EOF`."""
    if command.program not in _SHELLS:
        return
    for number, word in enumerate(command.words):
        if re.fullmatch(r"-\w*c", word) and number + 1 < len(command.words):
            yield from commands(command.words[number + 1], depth + 1)
            return
    if command.stdin:
        yield from commands(command.stdin, depth + 1)


@dataclass
class _Raw:
    words: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    appended: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    stdin: str = ""

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(self.words)


def _unwrapped(raw: _Raw) -> _Raw | None:
    """Without keywords, assignments and `sudo`, `timeout 5`, `xargs -n1` before the program."""
    words = list(raw.words)
    while words:
        first = words[0].rsplit("/", 1)[-1]
        if first in _KEYWORDS or _ASSIGNMENT.match(words[0]):
            words.pop(0)
        elif first in _WRAPPERS:
            words.pop(0)
            while words and (words[0].startswith("-") or _ASSIGNMENT.match(words[0])):
                if words.pop(0) in _WRAPPERS[first] and words:
                    words.pop(0)
            if first == "timeout" and words:
                words.pop(0)
        else:
            break
    if not words and not raw.outputs:
        return None
    program = words[0].rsplit("/", 1)[-1] or words[0] if words else ":"
    return _Raw([program, *words[1:]], raw.outputs, raw.appended, raw.inputs, raw.stdin)


class _Reader:
    """One pass over the characters."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.pipelines: list[list[_Raw]] = [[_Raw()]]
        self.substitutions: list[str] = []
        self._word: list[str] | None = None
        self._target: str | None = None
        self._waiting: list[tuple[_Raw, str, bool]] = []

    def read(self) -> None:
        text = self.text
        while self.at < len(text):
            char = text[self.at]
            if char in " \t\r":
                self._end_word()
                self.at += 1
            elif char == "\n":
                self._end_command()
                self.at += 1
                self._here_documents()
            elif char == "#" and self._word is None:
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif char in ";&|()":
                self._separator(char)
            elif char in "<>":
                self._redirection(char)
            else:
                self._part(char)
        self._end_command()

    def _part(self, char: str) -> None:
        """One more piece of the word under way."""
        text = self.text
        word = self._word = [] if self._word is None else self._word
        if char == "\\":
            word.append(text[self.at + 1 : self.at + 2])
            self.at += 2
        elif char == "'":
            end = text.find("'", self.at + 1)
            end = len(text) if end < 0 else end
            word.append(text[self.at + 1 : end])
            self.at = end + 1
        elif char == '"':
            self._double_quoted(word)
        elif char == "`" or text.startswith("$(", self.at):
            word.append(self._substitution())
        else:
            word.append(char)
            self.at += 1

    def _double_quoted(self, word: list[str]) -> None:
        text = self.text
        self.at += 1
        while self.at < len(text) and text[self.at] != '"':
            if text[self.at] == "\\" and text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`"):
                word.append(text[self.at + 1])
                self.at += 2
            elif text[self.at] == "`" or text.startswith("$(", self.at):
                word.append(self._substitution())
            else:
                word.append(text[self.at])
                self.at += 1
        self.at += 1

    def _substitution(self) -> str:
        """Keep the commands of `$(…)`; a `$` stands in the word for what it would print."""
        text, start = self.text, self.at
        if text[start] == "`":
            end = text.find("`", start + 1)
            end = len(text) if end < 0 else end
            self.substitutions.append(text[start + 1 : end])
            self.at = end + 1
            return "$"
        depth, at = 1, start + 2
        while at < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        self.substitutions.append(text[start + 2 : at - 1])
        self.at = at
        return "$"

    def _redirection(self, char: str) -> None:
        text = self.text
        if self._word is not None and "".join(self._word) in ("1", "2", "&", "0"):
            self._word = None
        self._end_word()
        if text.startswith("<<<", self.at):
            self.at, self._target = self.at + 3, "<<<"
        elif text.startswith("<<", self.at):
            dash = text.startswith("<<-", self.at)
            self.at, self._target = self.at + (3 if dash else 2), "<<-" if dash else "<<"
        elif text.startswith((">&", "<&"), self.at):
            self.at, self._target = self.at + 2, ">&"
        else:
            length = 2 if text.startswith((">>", ">|", "<>"), self.at) else 1
            adds = text.startswith(">>", self.at)
            self.at, self._target = self.at + length, ">>" if adds else char

    def _separator(self, char: str) -> None:
        if char == "&" and self.text.startswith("&>", self.at):
            self.at += 1
            return
        pipe = char == "|" and not self.text.startswith("||", self.at)
        self._end_command(pipe=pipe)
        self.at += 2 if self.text[self.at : self.at + 2] in ("&&", "||", ";;", "|&") else 1

    def _end_word(self) -> None:
        if self._word is None:
            return
        word, self._word = "".join(self._word), None
        raw, target, self._target = self.pipelines[-1][-1], self._target, None
        if target is None:
            raw.words.append(word)
        elif target in (">", ">>"):
            raw.outputs.append(word)
            raw.appended += [word] if target == ">>" else []
        elif target == "<":
            raw.inputs.append(word)
        elif target == "<<<":
            raw.stdin = word
        elif target in ("<<", "<<-"):
            self._waiting.append((raw, word, target == "<<-"))

    def _end_command(self, *, pipe: bool = False) -> None:
        self._end_word()
        self._target = None
        if pipe:
            self.pipelines[-1].append(_Raw())
        elif self.pipelines[-1] != [_Raw()]:
            self.pipelines.append([_Raw()])

    def _here_documents(self) -> None:
        for raw, mark, tabs in self._waiting:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = end + 1
                if (line.lstrip("\t") if tabs else line).rstrip("\r") == mark:
                    break
                lines.append(line)
            raw.stdin = "\n".join(lines)
        self._waiting = []
