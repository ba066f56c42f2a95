"""Find the Python code in a model's answer: fences of any spelling, bare code, bodies, prose."""

import ast
import builtins
import re
import warnings
from collections.abc import Iterator

MAX_CHARACTERS = 200_000
"""Of an answer, from its end: the rest is not read."""

_FENCE = re.compile(r"^[ \t>]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$")


def find_code(answer: str, entry_point: str, prompt: str) -> str | None:
    """Code that gives `entry_point` a meaning, or None if there is none.

    Code that defines it itself comes first (see defining_code). A block that only imports it or
    assigns it something is mostly an example of its use, and counts when there is nothing else.
    """
    if code := defining_code(answer, entry_point, prompt):
        return code
    blocks = list(_blocks(_text(answer)))
    for block in reversed(blocks):
        if (tree := _parsed(block)) and entry_point in _defined(tree):
            return _with_helpers(block, blocks)
    return None


def defining_code(answer: str, entry_point: str, prompt: str) -> str | None:
    """Code that defines `entry_point` itself, or None.

    In order of preference: the last code block that defines it, with the helpers it uses from
    other blocks; the longest stretch of the text itself that does; a block, or the whole text,
    that continues `prompt` (a function's body).
    """
    text = _text(answer)
    blocks = list(_blocks(text))
    for block in reversed(blocks):
        if _defines(block, entry_point):
            return _with_helpers(block, blocks)
    if not blocks and (bare := _bare_code(text, entry_point)):
        return bare
    for body in (*reversed(blocks), *([] if blocks else [text])):
        if completed := _completed(body, entry_point, prompt):
            return completed
    return _bare_code(text, entry_point)


def _text(answer: str) -> str:
    return answer[-MAX_CHARACTERS:].replace("\r\n", "\n").replace("\r", "\n")


def _blocks(text: str) -> Iterator[str]:
    """The content of each fenced block, dedented to its fence; a missing end is the text's end."""
    mark, indent, lines = "", 0, list[str]()
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if not mark:
            if fence:
                mark, indent, lines = fence["mark"], len(line) - len(line.lstrip(" ")), []
        elif fence and not fence["info"].strip() and fence["mark"].startswith(mark):
            yield "\n".join(lines) + "\n"
            mark = ""
        else:
            lines.append(line[indent:] if not line[:indent].strip() else line)
    if mark:
        yield "\n".join(lines) + "\n"


def _parsed(code: str) -> ast.Module | None:
    try:
        return _parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parse(code: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd escapes in the answer's strings
        return ast.parse(code)


def _defines(code: str, name: str) -> bool:
    """By a function, a class, or as what a lambda or a call gives that does not need it already."""
    tree = _parsed(code)
    for node in tree.body if tree else ():
        match node:
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                if node.name == name:
                    return True
            case ast.Assign(targets=[*targets], value=ast.Lambda() | ast.Call()):
                inside = [n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)]
                if name not in inside and any(_names(target, name) for target in targets):
                    return True
            case _:
                pass
    return False


def _names(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def _defined(tree: ast.Module) -> set[str]:
    """Names bound at the top level."""
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Import() | ast.ImportFrom():
                names.update((a.asname or a.name).partition(".")[0] for a in node.names)
            case ast.Assign():
                names.update(t.id for t in node.targets if isinstance(t, ast.Name))
            case _:
                pass
    return names


def _with_helpers(code: str, blocks: list[str]) -> str:
    """Put before the code those other blocks that define a name it uses and does not define."""
    tree = _parsed(code)
    if tree is None:
        return code
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    missing = used - _defined(tree) - set(dir(builtins))
    helpers = [
        block
        for block in blocks
        if block != code and (other := _parsed(block)) and _defined(other) & missing
        if all(isinstance(n, _DEFINITIONS) for n in other.body)
    ]
    return "\n".join([*helpers, code])


_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign)


def _bare_code(text: str, name: str) -> str | None:
    """The longest run of lines, from one that could start code, that defines the name."""
    lines = [line for line in text.split("\n") if not _FENCE.match(line)]
    definition = re.compile(rf"(async )?def {re.escape(name)}\b")
    definitions = [i for i, line in enumerate(lines) if definition.match(line)]
    if not definitions:
        return None
    last = definitions[-1]
    starts = [i for i, line in enumerate(lines[:last]) if _START.match(line)][:MAX_STARTS]
    for start in (*starts, last):
        end: int | None = len(lines)
        for _ in range(MAX_CUTS):
            if end is None or end <= last:
                break
            code = "\n".join(lines[start:end]) + "\n"
            if _defines(code, name):
                return code
            end = _shorter(code, lines, start)
    return None


_START = re.compile(r"(import|from|def|class|async)\b|@\w|[A-Za-z_]\w* =")
MAX_STARTS, MAX_CUTS = 8, 8
"""Parsing is cut off here, however odd the text."""


def _shorter(code: str, lines: list[str], start: int) -> int | None:
    """Where the code may end at most: before the statement at which it stops being Python."""
    try:
        _parse(code)
    except SyntaxError as error:
        wrong = start + (error.lineno or 1) - 1
        while wrong > start and not (lines[wrong : wrong + 1] and _top_level(lines[wrong])):
            wrong -= 1
        return wrong
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def _top_level(line: str) -> bool:
    return bool(line.strip()) and not line[0].isspace()


def _completed(body: str, name: str, prompt: str) -> str | None:
    """prompt + body, if that is a function that returns something."""
    for text in (body, "\n".join("    " + line for line in body.split("\n"))):
        code = prompt.rstrip() + "\n" + text.rstrip() + "\n"
        tree = _parsed(code)
        if tree is None:
            continue
        functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
        # Prose and lone expressions parse too; a function that is asked for returns something.
        if functions and any(isinstance(n, _RESULTS) for n in ast.walk(functions[-1])):
            return code
    return None


_RESULTS = (ast.Return, ast.Yield, ast.YieldFrom)
