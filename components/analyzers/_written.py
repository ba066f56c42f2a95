"""What an agent writes, whichever way: file tools, redirections, here-documents, `sed -i`, …"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agentcompass.components.analyzers._actions import Action, of_patch
from agentcompass.components.analyzers._shell import Command, commands, git_verb


@dataclass(frozen=True)
class Change:
    """A file that an action creates, changes or removes."""

    path: str
    text: str = ""
    """New content, as far as it is known."""
    old: str = ""
    removed: bool = False
    partial: bool = False
    """`text` is added to the file, or a script that changes it: not the file's whole content."""
    source: str = ""
    """The file it is a copy of."""
    by: Command | None = field(default=None, compare=False)
    """The command that does it; None: a file tool."""


def changes(action: Action) -> Iterator[Change]:
    for written in action.written:
        yield Change(written.path, written.text, written.old, partial=written.partial)
    for command in action.commands:
        yield from (replace(change, by=command) for change in _by(command))


_LAST_WORD = frozenset(["cp", "mv", "install", "ln", "rsync"])
_EVERY_WORD = frozenset(["touch", "tee", "truncate", "shred"])
_REMOVERS = frozenset(["rm", "unlink", "rmdir"])
_INTERPRETERS = re.compile(r"(?:python[\d.]*|node|ruby|perl|pypy3?|ipython)$")
_OPENED = re.compile(
    r"""open\(\s*[rbf]?["']([^"'\n]{1,300})["']\s*,\s*(?:mode\s*=\s*)?["']([wax])"""
    r"""|Path\(\s*[rf]?["']([^"'\n]{1,300})["']\s*\)\s*\.write_(?:text|bytes)\("""
)
_READS = re.compile(r"\.replace\(|\bre\.sub\(|\.read(?:lines)?\(|read_text\(")


def _by(command: Command) -> Iterator[Change]:
    text = command.stdin or _printed(command)
    for path in command.outputs:
        if path not in ("/dev/null", "/dev/stderr", "/dev/stdout"):
            yield Change(path, text, partial=path in command.appended)
    for following in command.into[:1]:
        if following[0] == "tee" and text:
            adds = "-a" in following
            yield from (
                Change(word, text, partial=adds)
                for word in following[1:]
                if not word.startswith("-")
            )
    program = command.program
    paths = [word for word in command.words if not word.startswith("-")]
    if program in _LAST_WORD and len(paths) > 1:
        for source in paths[:-1]:
            yield Change(paths[-1], source=source)
            if program == "mv":
                yield Change(source, removed=True)
    elif program in _EVERY_WORD:
        for path in paths:
            yield Change(path, text, partial="-a" in command.words)
    elif program in _REMOVERS:
        for path in paths:
            yield Change(path, removed=True)
    elif program == "git" and git_verb(command.words)[0] == "rm":
        for path in git_verb(command.words)[1]:
            if not path.startswith("-"):
                yield Change(path, removed=True)
    elif program == "sed" and any(re.match(r"-\w*i|--in-place", w) for w in command.words):
        yield from _by_sed(command)
    elif program in ("curl", "wget"):
        yield from (Change(path) for path in downloaded_to(command))
    elif code := code_of(command):
        reads = _READS.search(code) is not None
        for found in _OPENED.finditer(code):
            yield Change(found[1] or found[3], code, partial=reads or found[2] == "a")
    elif program in ("patch", "apply_patch") or program == "git" and paths[:1] == ["apply"]:
        for written in of_patch(command.stdin):
            yield Change(written.path, written.text, written.old, partial=written.partial)


_EXPRESSION = ("-e", "--expression")
_SUBSTITUTES = re.compile(r"s([/|#,@!])((?:\\.|(?!\1)[^\\])*)\1((?:\\.|(?!\1)[^\\])*)\1")
_DELETES = re.compile(r"(?:/((?:\\.|[^\\/])*)/|[\d,$]+)\s*d\s*;?")


def _by_sed(command: Command) -> Iterator[Change]:
    """What `sed -i` puts into files, and what it takes out."""
    words = command.words
    scripts = [words[i + 1] for i, word in enumerate(words[:-1]) if word in _EXPRESSION]
    plain = [
        word for i, word in enumerate(words)
        if word and not word.startswith("-") and (i == 0 or words[i - 1] not in _EXPRESSION)
    ]  # fmt: skip
    if not scripts:
        scripts, plain = plain[:1], plain[1:]
    new, old = [], []
    for script in scripts:
        pairs = _SUBSTITUTES.findall(script)
        removed = _DELETES.fullmatch(script.strip())
        new += [pair[2] for pair in pairs] if pairs or removed else [script]
        old += [pair[1] for pair in pairs] or ([removed[1] or ""] if removed else [])
    for path in plain:
        yield Change(path, "\n".join(new), "\n".join(old), partial=True)


def code_of(command: Command) -> str:
    """The program text an interpreter is given on its command line or its input."""
    if not _INTERPRETERS.match(command.program):
        return ""
    for number, word in enumerate(command.words[:50]):
        if word in ("-c", "-e", "-ne", "-pe") and number + 1 < len(command.words):
            return command.words[number + 1]
    return command.stdin


def downloaded_to(command: Command) -> Iterator[str]:
    """The file `curl -o` or `wget -O` writes; the URL's own last part for `curl -O`, `wget`."""
    words = command.words
    flags = ("-o", "--output") if command.program == "curl" else ("-O", "--output-document")
    named = [words[i + 1] for i, word in enumerate(words[:-1]) if word in flags]
    yield from named
    own = command.program == "wget" or "-O" in words or "--remote-name" in words
    if own and not named:
        for word in words:
            if word.startswith(("http://", "https://")):
                yield word.split("?")[0].rstrip("/").rsplit("/", 1)[-1]


def _printed(command: Command) -> str:
    if command.program in ("echo", "printf"):
        return " ".join(w for w in command.words if not re.fullmatch(r"-[neE]+", w))
    return ""


_LIST = re.compile(r"""\[\s*["']([\w./-]+)["']((?:\s*,\s*["'][^"'\n]*["'])*)\s*,?\s*\]""")
_CALL = re.compile(
    r"""(?:system|popen|run|call|check_output|Popen|exec)\(\s*f?["']([^"'\n]+)["']"""
)


def with_embedded(action: Action) -> Iterator[Command]:
    """The action's commands, and those its Python code starts."""
    for command in action.commands:
        yield command
        code = code_of(command)
        for found in _LIST.finditer(code):
            yield Command(
                (found[1].rsplit("/", 1)[-1], *re.findall(r"""["']([^"'\n]*)["']""", found[2]))
            )
        for found in _CALL.finditer(code):
            yield from commands(found[1])
