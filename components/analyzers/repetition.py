"""An agent going round in circles: in one text, with one call, or with a cycle of calls.

Calls count as the same only if their results are the same, too: polling a log that grows is no
loop. Waiting (`sleep`, empty keystrokes) is none either.
"""

import hashlib
import json
from collections import Counter
from typing import Annotated

from pydantic import Field

from agentcompass.components.analyzers._actions import Action, actions
from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.protocols import Component

_BREAK = "Break loops: sample with a higher temperature or a repetition penalty, or stop them early"
KINDS = {
    "text": Kind("serious", "one text repeats itself over and over", _BREAK, "lost"),
    "same_call": Kind(
        "warning", "the same call, with the same result, again and again", _BREAK, "lost"
    ),
    "cycle": Kind(
        "warning", "the same few calls, with the same results, in a cycle", _BREAK, "lost"
    ),
    "same_message": Kind("warning", "the same words in several replies", _BREAK, "lost"),
}
_LONGEST_CYCLE = 6
_TAIL = 4_000
_LETTERS = 10
"""So many stand in a passage of ten words that says something."""


class RepetitionParameters(AnalyzerParameters):
    calls: Annotated[int, Field(ge=2)] = 4
    """The same call with the same result so often in a row is a loop."""
    cycles: Annotated[int, Field(ge=2)] = 3
    """A cycle of 2 to 6 calls so often in a row is a loop."""
    messages: Annotated[int, Field(ge=2)] = 4
    """So many replies of one attempt with the same text are named."""
    text_times: Annotated[int, Field(ge=2)] = 8
    """A passage so often in one text is repetition, if it also fills `text_chars`."""
    text_chars: Annotated[int, Field(ge=20)] = 300
    """Characters the repetitions in one text must fill together."""


class Repetition:
    def __init__(self, parameters: RepetitionParameters) -> None:
        self._parameters = parameters
        self._findings = Findings(KINDS, parameters.examples)

    def look_at(self, attempt: FinishedAttempt) -> None:
        limits = self._parameters
        messages: dict[str, list[int]] = {}
        for step in attempt.steps:
            if step.source != "agent":
                continue
            for text in (step.message, step.reasoning_content or ""):
                passage = repeated(text, limits.text_times, limits.text_chars)
                if passage is not None:
                    self._findings.add("text", attempt, passage, [step.step_id])
            # "Now let me test again:" before other calls is no loop.
            plain = " ".join(step.message.split())
            if len(plain) >= (200 if step.tool_calls or step.observation else 20):
                messages.setdefault(_digest(plain), []).append(step.step_id)
        for steps in messages.values():
            if len(steps) >= limits.messages:
                said = next(s.message for s in attempt.steps if s.step_id == steps[0])
                self._findings.add("same_message", attempt, said, steps)
        self._look_at_calls(attempt)

    def _look_at_calls(self, attempt: FinishedAttempt) -> None:
        done = [action for action in actions(attempt) if not _waits(action)]
        marks = [_mark(action) for action in done]
        start = 0
        while start < len(marks):
            for period in range(1, _LONGEST_CYCLE + 1):
                times = _times(marks, start, period)
                if times >= (self._parameters.calls if period == 1 else self._parameters.cycles):
                    round_ = done[start : start + period]
                    taken = done[start : start + period * times]
                    kind = "same_call" if period == 1 else "cycle"
                    evidence = f"{times} times: " + "; ".join(_shown(one) for one in round_)
                    self._findings.add(kind, attempt, evidence, [one.step for one in taken])
                    start += period * times - 1
                    break
            start += 1

    def report(self) -> Report:
        return self._findings.report()


def repeated(text: str, times: int, chars: int) -> str | None:
    """A passage that stands in the text again and again; None: there is none.

    At its end (a model that cannot stop) any passage counts, elsewhere one of ten words. A grid of
    zeros or an empty table is content: what has no letters must fill most of the end.
    """
    text = text.strip()
    if len(text) < chars:
        return None
    tail = text[-_TAIL:]
    if (period := _period(tail, times, chars)) is not None:
        return f"at the end, over and over: {tail[-period:]}"
    words = text[:200_000].split()
    grams, ends = Counter[str](), dict[str, int]()
    for at in range(len(words) - 9):
        gram = " ".join(words[at : at + 10])
        if at >= ends.get(gram, 0) and sum(map(str.isalpha, gram)) >= _LETTERS:
            grams[gram] += 1
            ends[gram] = at + 10  # the next one stands beside it, not across it
    if not grams:
        return None
    passage, count = grams.most_common(1)[0]
    return f"{count} times: {passage}" if count >= times and count * len(passage) >= chars else None


def _period(tail: str, times: int, chars: int) -> int | None:
    """The length of what the text ends with `times` times, by the Z function of it reversed."""
    text = tail[::-1]
    size = len(text)
    reach = [0] * size
    left = right = 0
    for at in range(1, size):
        if at < right:
            reach[at] = min(right - at, reach[at - left])
        while at + reach[at] < size and text[reach[at]] == text[at + reach[at]]:
            reach[at] += 1
        if at + reach[at] > right:
            left, right = at, at + reach[at]
        covered = at + reach[at]
        if covered >= max(at * times, chars) and (
            covered >= _TAIL * 3 // 4 or any(map(str.isalpha, text[:at]))
        ):
            return at
    return None


def _times(marks: list[str], start: int, period: int) -> int:
    unit, times = marks[start : start + period], 1
    if period > 1 and len(set(unit)) == 1:
        return 1
    while marks[start + period * times : start + period * (times + 1)] == unit:
        times += 1
    return times


def _mark(action: Action) -> str:
    arguments = json.dumps(action.arguments, sort_keys=True, default=str)
    return _digest("\0".join([action.tool, arguments, action.output]))


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _waits(action: Action) -> bool:
    if "keystrokes" in action.arguments and not action.line:
        return True
    programs = [command.program for command in action.commands]
    return bool(programs) and programs[0] in ("sleep", "wait")


def _shown(action: Action) -> str:
    return action.line or f"{action.tool} {json.dumps(dict(action.arguments), default=str)[:200]}"


COMPONENT = Component(version="2", create=Repetition, parameters=RepetitionParameters)
