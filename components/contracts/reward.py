"""Rewards are checked on arrival: finite, of the declared kind, in the declared range."""

import math
import re

from agentcompass.components.contracts.attempt import Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.task import Primary

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_reward(raw: bytes) -> float:
    """The number in a grader's reward file.

    Accepts a finite decimal number as shells, `bc` and Python print it (`1`, `.50`, `1.`, `+1`,
    `5e-1`), with surrounding white space, a UTF-8 byte-order mark or CRLF, and JSON
    `true`/`false` as 1 and 0. Anything else (empty, text, quoted numbers, objects, NaN,
    infinities and what is too large for a number) raises `grader.invalid_reward`.
    """
    text = raw.decode("utf-8-sig", errors="replace").strip()
    value = {"true": 1.0, "false": 0.0}.get(text)
    if value is None and _NUMBER.fullmatch(text):
        value = finite(float(text))
    if value is not None:
        return value
    raise AgentCompassError(Code.GRADER_INVALID_REWARD, f"not a finite number: {_shown(text)}")


def finite(value: object) -> float | None:
    """The number that a reader of JSON found; None if it is none, or none that `float` holds."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def check_verdict(verdict: Verdict, primary: Primary, score_range: tuple[float, float]) -> None:
    """Raise `grader.invalid_reward` unless exactly the primary is set, finite and in range."""
    low, high = score_range
    if primary == "correct":
        if verdict.correct is None or verdict.score is not None:
            raise AgentCompassError(Code.GRADER_INVALID_REWARD, "the verdict lacks `correct`")
        return
    if verdict.score is None or verdict.correct is not None:
        raise AgentCompassError(Code.GRADER_INVALID_REWARD, "the verdict lacks `score`")
    if not (math.isfinite(verdict.score) and low <= verdict.score <= high):
        raise AgentCompassError(
            Code.GRADER_INVALID_REWARD, f"score {verdict.score} is outside {low}..{high}"
        )


def _shown(text: str) -> str:
    return "the file is empty" if not text else repr(text[:60])
