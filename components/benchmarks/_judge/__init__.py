"""Judge a submission with hidden tests inside a sandbox, in processes kept apart.

Needs `python3` in the sandbox and nothing else. One command: the judge's source, the tests and a
token go in over stdin, the verdict comes out as a line with that token.
"""

import ast
import json
import secrets
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.attempt import Evidence
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.sandbox import Environment, ExecResult

MOST_STARVED = 5
"""As in candidate.py, which runs in the sandbox."""
OVERHEAD_SECONDS = 90.0
"""Starting python3 on a crowded machine, beyond the submission's own time."""
OUTPUT_LIMIT_KB = 1024

LOADER = """\
import json, os, sys, types
incoming = os.fdopen(int(sys.argv[1]), "rb")
bundle = json.loads(incoming.readline())
for name, text in bundle["sources"]:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules[bundle["main"]].main(incoming)
"""
"""Loads this folder's modules from text, under their own names, so that their imports hold."""


class Judgement(Frozen):
    """What the judge said."""

    tests: tuple[Evidence, ...]
    reward: bytes | None = None
    """What `grade()` returned, as JSON text that nobody has checked yet."""
    text: str = ""
    """Why the submission failed as a whole, if it did."""

    @property
    def share(self) -> float:
        """Share of the tests that passed, 0..1."""
        return sum(test.passed is True for test in self.tests) / max(len(self.tests), 1)


async def judge_function(
    env: Environment,
    *,
    prelude: str,
    code: str,
    entry_point: str,
    tests: str,
    timeout_seconds: float,
) -> Judgement:
    """`check(function)` of `tests` on the function `entry_point` that `code` defines.

    `prelude` runs before the code and before the tests (imports, helpers both may use).
    Raises grader.crashed or grader.timeout when the judge itself cannot work.
    """
    request = {
        "mode": "function",
        "prelude": prelude,
        "code": code,
        "entry_point": entry_point,
        "tests": tests,
    }
    return await _judge(env, request, ["check"], timeout_seconds)


async def judge_tests(env: Environment, tests: str, timeout_seconds: float) -> Judgement:
    """The unittest classes in `tests` on the submission in the workdir; a limit for each test."""
    request = {"mode": "tests", "tests": tests, "workdir": env.workdir}
    return await _judge(env, request, names_of_tests(tests), timeout_seconds)


async def judge_grade(env: Environment, tests: str, timeout_seconds: float) -> Judgement:
    """The number that `grade()` in `tests` returns for the submission in the workdir."""
    request = {"mode": "grade", "tests": tests, "workdir": env.workdir}
    return await _judge(env, request, [], timeout_seconds)


def names_of_tests(tests: str) -> list[str]:
    """`Class.test_method` of every test in a unittest source text."""
    return [
        f"{node.name}.{item.name}"
        for node in ast.parse(tests).body
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name.startswith("test")
    ]


async def _judge(
    env: Environment, request: dict[str, Any], expected: list[str], timeout_seconds: float
) -> Judgement:
    token = secrets.token_hex(16)
    bundle = {
        "sources": sources(),
        "loader": LOADER,
        "submission_main": f"{__name__}.submission",
        "request": {**request, "token": token, "timeout_seconds": timeout_seconds},
    }
    start = {"sources": sources(), "main": f"{__name__}.judge"}
    result = await env.exec(
        ["python3", "-I", "-S", "-B", "-c", LOADER, "0"],
        stdin=b"".join(json.dumps(part).encode("ascii") + b"\n" for part in (start, bundle)),
        timeout_seconds=longest_seconds(timeout_seconds, len(expected)),
        output_limit_kb=OUTPUT_LIMIT_KB,
    )
    said = {line["event"]: line for line in _lines(result.stdout, token)}
    if "verdict" in said:
        return _judgement(said["verdict"], expected)
    if "broken" in said:
        raise AgentCompassError(Code.GRADER_CRASHED, printable(said["broken"]["text"]))
    if "started" not in said:
        raise _not_started(result)
    if result.out_of_memory:
        raise AgentCompassError(
            Code.GRADER_CRASHED,
            "the memory limit ended the judge: give the sandbox more (resources.memory_mb)",
        )
    if result.exit_code == 1:  # of its own accord, and not by a signal
        reason = result.stderr.strip().rpartition("\n")[2][:200]
        raise AgentCompassError(Code.GRADER_CRASHED, f"the judge failed: {printable(reason)}")
    # The judge was at work and did not get to its verdict: the submission ended it.
    ended = "was held up" if result.timed_out else f"was ended (exit {result.exit_code})"
    text = f"the judge {ended} while the submission ran"
    return Judgement(
        tests=tuple(Evidence(name=n, passed=False, text=text) for n in expected), text=text
    )


def longest_seconds(timeout_seconds: float, tests: int) -> float:
    """For all of it, on a machine so crowded that every limit was stretched to its end."""
    return timeout_seconds * (1 + MOST_STARVED) * max(tests, 1) + OVERHEAD_SECONDS


def _judgement(verdict: dict[str, Any], expected: list[str]) -> Judgement:
    tests = tuple(
        Evidence(name=test["name"], passed=test["passed"] is True, text=printable(test["text"]))
        for test in verdict["tests"]
    )
    if sorted(test.name for test in tests) != sorted(expected):
        raise AgentCompassError(
            Code.GRADER_CRASHED, f"{len(tests)} of {len(expected)} hidden tests were found"
        )
    reward = verdict.get("reward")
    return Judgement(
        tests=tests,
        reward=None if reward is None else reward.encode("utf-8", "replace"),
        text=printable(verdict.get("text", "")),
    )


def _not_started(result: ExecResult) -> AgentCompassError:
    if result.timed_out:
        return AgentCompassError(Code.GRADER_TIMEOUT, "python3 did not start in the sandbox")
    if result.exit_code in (126, 127):
        return AgentCompassError(
            Code.GRADER_CRASHED, "python3 is missing in the sandbox: use an image that has it"
        )
    reason = result.stderr.strip().rpartition("\n")[2][:200]
    return AgentCompassError(
        Code.GRADER_CRASHED, f"python3 failed in the sandbox (exit {result.exit_code}): {reason}"
    )


def _lines(stdout: str, token: str) -> Iterator[dict[str, Any]]:
    for line in stdout.split("\n"):
        if token in line:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and said.get("token") == token:
                yield said


def printable(text: str) -> str:
    """Without what no strict UTF-8 or JSON reader takes: half surrogates and NULs."""
    return (
        text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
    )


@cache
def sources() -> tuple[tuple[str, str], ...]:
    folder = Path(__file__).parent
    return tuple(
        (f"{__name__}.{name}", (folder / f"{name}.py").read_text(encoding="utf-8"))
        for name in ("values", "submission", "starvation", "candidate", "judge")
    )
