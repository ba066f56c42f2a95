"""The process that judges: holds the hidden tests, asks the submission's process, says a verdict.

Runs inside the sandbox (Python 3.8 or newer, standard library only). All it knows came over
stdin, so nothing of it is on disk, in argv or in the environment. What the submission answers
arrives as plain data; so neither exiting early, nor printing, nor an object that equals
everything, nor a redefined `check` or `unittest` changes the verdict. Its lines on stdout carry a
token that the submission cannot know; any other line is not the judge's.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from typing import Any, BinaryIO

from agentcompass.components.benchmarks._judge.candidate import (
    PR_SET_DUMPABLE,
    Broken,
    Candidate,
    SubmissionError,
    SubmissionGone,
    SubmissionTimeout,
    process_option,
)

TEXT_LIMIT = 1000
LATE = (
    *("decimal", "fractions", "tempfile", "traceback", "unittest"),
    *("_strptime", "difflib", "encodings.ascii", "encodings.latin_1", "pprint", "tokenize"),
)
"""What the judge's parts, and what the standard library imports in the middle of a call."""


def main(incoming: BinaryIO) -> None:
    bundle = json.loads(incoming.readline())
    close_the_door()
    import_beforehand(bundle["request"])
    say(bundle, event="started")
    try:
        verdict = MODES[bundle["request"]["mode"]](bundle)
    except Broken as error:
        verdict = {"event": "broken", "text": str(error)}
    say(bundle, **verdict)


def close_the_door() -> None:
    """What was read is gone from where a submission could look: /proc/<this process>/fd/0 and mem.

    The submission runs as the same user. A process that may not be dumped cannot be read by its
    user's other processes; root's can, unless they lack what Candidate.start takes from them.
    """
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    process_option(PR_SET_DUMPABLE, 0)


def import_beforehand(request: dict[str, Any]) -> None:
    """From now on no file is imported: a submission that may write there could plant one.

    What a test imports late, and not by name in an import statement, is not found.
    """
    for name in (*LATE, *imported(request.get("prelude", "")), *imported(request["tests"])):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not PathFinder]


def imported(source: str) -> Iterator[str]:
    """Names in import statements, wherever they stand; some are of no module."""
    import ast

    with contextlib.suppress(SyntaxError):  # told when it is run
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)


def say(bundle: dict[str, Any], **fields: Any) -> None:
    line = json.dumps({**fields, "token": bundle["request"]["token"]})
    sys.stdout.write(f"\n{line}\n")
    sys.stdout.flush()


def judge_function(bundle: dict[str, Any]) -> dict[str, Any]:
    """`check(candidate)` of a hidden text, with the submission's function as the candidate."""
    request, candidate = bundle["request"], Candidate(bundle)
    entry_point = request["entry_point"]

    def function(*args: Any, **kwargs: Any) -> Any:
        return candidate.ask(op="call", name=None, args=args, kwargs=kwargs)

    names: dict[str, Any] = {"__name__": "hidden_tests"}
    try:
        exec(compile(request["prelude"], "<prompt>", "exec"), names)  # helpers the tests may use
        names[entry_point] = function
        exec(compile(request["tests"], "<tests>", "exec"), names)
        check = names["check"]
    except Exception as error:
        raise Broken("the hidden tests do not load: " + last_line(error)) from error

    def judged() -> None:
        candidate.ask(
            op="define", prelude=request["prelude"], code=request["code"], entry_point=entry_point
        )
        check(function)

    passed, text = attempt(candidate, judged)
    return {"event": "verdict", "tests": [{"name": "check", "passed": passed, "text": text}]}


def judge_tests(bundle: dict[str, Any]) -> dict[str, Any]:
    """unittest classes of a hidden text; each test meets a submission started afresh."""
    import unittest

    module, current = hidden_module(bundle)
    outcomes: list[dict[str, Any]] = []
    for case in flat(unittest.defaultTestLoader.loadTestsFromModule(module)):
        candidate = current[0] = Candidate(bundle)
        result = unittest.TestResult()
        finished, text = attempt(candidate, functools.partial(case.run, result))
        passed = finished and result.testsRun == 1 and result.wasSuccessful()
        passed = passed and not (result.skipped or result.expectedFailures)
        problems = result.errors + result.failures
        if problems:
            text = clipped(problems[0][1].strip().rpartition("\n")[2])
        name = case.id().partition(".")[2]
        outcomes.append({"name": name, "passed": passed, "text": "" if passed else text})
    return {"event": "verdict", "tests": outcomes}


def judge_grade(bundle: dict[str, Any]) -> dict[str, Any]:
    """`grade()` of a hidden text returns the reward; it travels as text and is checked outside.

    A submission that raises, hangs or ends gets 0; any other exception is the grader's own.
    """
    module, current = hidden_module(bundle)
    current[0] = Candidate(bundle)
    rewards: list[Any] = []
    text = ""
    try:
        _, text = attempt(current[0], lambda: rewards.append(module.grade()), SUBMISSION)
    except Exception as error:
        raise Broken("grade() failed: " + last_line(error)) from error
    try:
        reward = json.dumps(rewards[0] if rewards else 0)
    except (TypeError, ValueError):
        reward = repr(rewards[0])
    return {"event": "verdict", "tests": [], "reward": reward[:TEXT_LIMIT], "text": text}


MODES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "function": judge_function,
    "tests": judge_tests,
    "grade": judge_grade,
}

SUBMISSION = (SubmissionTimeout, SubmissionGone, SubmissionError)


def attempt(
    candidate: Candidate, action: Callable[[], Any], failures: Any = BaseException
) -> tuple[bool, str]:
    """(it ended well, else why not). The submission's processes are dead afterwards."""
    try:
        action()
    except Broken:
        raise
    except failures as error:
        return False, clipped(last_line(error))
    finally:
        candidate.kill()
    return True, ""


def hidden_module(bundle: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The hidden text as a module that finds `call`, `snippet`, `run` and `workdir` in it."""
    request = bundle["request"]
    module: Any = types.ModuleType("hidden_tests")
    sys.modules["hidden_tests"] = module
    asked: list[Any] = [None]

    def call(name: str, *args: Any, **kwargs: Any) -> Any:
        """Call `module.function` of the submission."""
        return asked[0].ask(op="call", name=name, args=args, kwargs=kwargs)

    def snippet(source: str) -> Any:
        """Run code among the submission's modules; the value of its `result`."""
        return asked[0].ask(op="snippet", source=source)

    def run(*argv: str, stdin: str = "") -> Any:
        """Run a program of the submission: a CompletedProcess with text."""
        return asked[0].run(argv, stdin)

    module.__dict__.update(call=call, snippet=snippet, run=run, workdir=request["workdir"])
    os.chdir(request["workdir"])  # so that tests may open the submission's files by name
    try:
        exec(compile(request["tests"], "<tests>", "exec"), module.__dict__)
    except Exception as error:
        raise Broken("the hidden tests do not load: " + last_line(error)) from error
    return module, asked


def flat(suite: Any) -> list[Any]:
    cases: list[Any] = []
    for item in suite:
        cases.extend(flat(item) if hasattr(item, "__iter__") else [item])
    return cases


def last_line(error: BaseException) -> str:
    """The exception's text, and the test's line where it rose."""
    import traceback

    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in ("<tests>", "<prompt>"):
            return f"{said} (line {frame.lineno} of the {frame.filename.strip('<>')})"
    return said


def clipped(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + "…"
