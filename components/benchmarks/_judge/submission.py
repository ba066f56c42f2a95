"""The process that runs a submission: answers questions with plain data, knows no test.

Runs inside the sandbox (Python 3.8 or newer, standard library only). It sees the arguments of
calls and nothing else: no expected value, no token, no test text.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from agentcompass.components.benchmarks._judge.values import decode, encode

TEXT_LIMIT = 2000


def main(incoming: BinaryIO) -> None:
    """Answer until the judge hangs up. argv: questions handle, answers handle."""
    answers = int(sys.argv[2])
    for handle in (incoming.fileno(), answers):
        os.set_inheritable(handle, False)
    module = types.ModuleType("submission")
    sys.modules["submission"] = module
    sys.argv = ["submission"]
    sys.path.insert(0, str(Path.cwd()))
    dumps, loads = json.dumps, json.loads  # a submission that rebinds them hinders only itself
    write_all(answers, b"{}\n")
    for line in incoming:
        try:
            text = dumps({"value": encode(answer(loads(line), module.__dict__))})
        except BaseException as error:  # SystemExit and KeyboardInterrupt of the submission too
            text = dumps({"error": type(error).__name__, "message": text_of(error)})
        write_all(answers, text.encode("ascii") + b"\n")


def answer(question: dict[str, Any], names: dict[str, Any]) -> Any:
    return ANSWERS[question["op"]](question, names)


def define(question: dict[str, Any], names: dict[str, Any]) -> None:
    """Run the prelude, then the submission's code; its own `entry_point` must come of it."""
    exec(compile(question["prelude"], "<prompt>", "exec"), names)
    names.pop(question["entry_point"], None)
    exec(compile(question["code"], "<submission>", "exec"), names)
    if question["entry_point"] not in names:
        raise NameError(f"the code does not define {question['entry_point']}")
    names["\0entry"] = names[question["entry_point"]]


def call(question: dict[str, Any], names: dict[str, Any]) -> Any:
    args = [decode(value) for value in question["args"]]
    kwargs = {name: decode(value) for name, value in question["kwargs"].items()}
    if question["name"] is None:
        return names["\0entry"](*args, **kwargs)
    path, _, attribute = question["name"].rpartition(".")
    return getattr(importlib.import_module(path), attribute)(*args, **kwargs)


def snippet(question: dict[str, Any], names: dict[str, Any]) -> Any:
    scope: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(question["source"], "<snippet>", "exec"), scope)
    return scope["result"]


ANSWERS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "define": define,
    "call": call,
    "snippet": snippet,
}


def text_of(error: BaseException) -> str:
    try:
        return str(error)[:TEXT_LIMIT]
    except BaseException:  # the submission's own __str__
        return "an exception without a text"


def write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
