"""Rewards are checked on arrival: finite, of the declared kind, in the declared range."""

import json
import math

from agentcompass.components.contracts.attempt import Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.task import Primary


def parse_reward(raw: bytes) -> float:
    """The number in a grader's reward file.

    Accepts what `float` and JSON call a finite number, with surrounding white space, a UTF-8
    byte-order mark or CRLF, and JSON `true`/`false` as 1 and 0. Anything else (empty, text,
    quoted numbers, objects, NaN, infinities) raises `grader.invalid_reward`.
    """
    text = raw.decode("utf-8-sig", errors="replace").strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    raise AgentCompassError(Code.GRADER_INVALID_REWARD, f"not a finite number: {_shown(text)}")


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
