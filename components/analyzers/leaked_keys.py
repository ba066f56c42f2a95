"""Keys and passwords in trajectories and answers. None is repeated here: four characters are shown.

The run's own keys are masked at every write; where that mask stands beside the name of a key, the
agent could read it all the same.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator

from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.trajectory import Step

KINDS = {
    "own_key": Kind(
        "serious",
        "the agent saw a key of this run (masked in the records)",
        "Rotate the keys the agent could read, and keep them out of its sandbox",
        urgent=True,
    ),
    "key": Kind(
        "serious",
        "something that looks like a live key stands in the records",
        "Rotate the keys that stand in the trajectories, and do not share the records before",
        urgent=True,
    ),
}
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"sk-(?:ant-|proj-|or-v1-|svcacct-)?[A-Za-z0-9_-]{20,200}"
    r"|gh[pousr]_[A-Za-z0-9]{36,100}|github_pat_[A-Za-z0-9_]{40,120}|glpat-[A-Za-z0-9_-]{20,60}"
    r"|hf_[A-Za-z0-9]{30,60}|AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}"
    r"|xox[abprs]-[A-Za-z0-9-]{20,200}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,250}"
    r"|ya29\.[A-Za-z0-9_-]{30,300}|dtn_[A-Za-z0-9]{32,100}"
    r")(?![A-Za-z0-9])"
)
_MARKS = (
    "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "AKIA", "ASIA",
    "AIza", "xox", "npm_", "pypi-", "ya29.", "dtn_",
)  # fmt: skip
"""One of them stands in every shape: a quick look before the slow one."""
_PRIVATE = re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*(?:\\n)?[A-Za-z0-9+/=]{40}")
_NAMED = re.compile(
    r"(?i)(?:api[_-]?key|access[_-]?token|auth[_-]?token|secret[_-]?key|client[_-]?secret)"
    r"[\"']?\s{0,4}[:=]\s{0,4}[\"']?([A-Za-z0-9_+/=.-]{24,200})(?![A-Za-z0-9])"
)
_NAMES = (
    "api_key", "api-key", "apikey", "access_token", "access-token", "accesstoken", "auth_token",
    "auth-token", "authtoken", "secret_key", "secret-key", "secretkey", "client_secret",
    "client-secret", "clientsecret",
)  # fmt: skip
_MASKED = re.compile(
    r"(?i)\b\w{0,40}?(?:key|token|secret|password|passwd|credential)s?[\"']?\s{0,4}[:=]\s{0,4}"
    r"[\"']?\*\*\*(?!\*)"
    r"|\bbearer \*\*\*(?!\*)"
)
_DUMMY = re.compile(
    r"(?i)example|dummy|fake|placeholder|your[_-]|test[_-]?key|xxxx|0000|1234567|abcdef|changeme"
    r"|redacted|not-?needed|\.\.\."
)
_LONGEST = 500_000


class LeakedKeysParameters(AnalyzerParameters):
    ignore: tuple[str, ...] = ()
    """Texts that mark a find as harmless, such as the prefix of a task's own dummy keys."""


class LeakedKeys:
    def __init__(self, parameters: LeakedKeysParameters) -> None:
        self._ignore = parameters.ignore
        self._findings = Findings(KINDS, parameters.examples)

    def look_at(self, attempt: FinishedAttempt) -> None:
        for step in attempt.steps:
            if step.source == "system":
                continue
            for place, text in _texts(step):
                self._search(attempt, place, text, [step.step_id])
        submission = attempt.record.submission
        if submission is not None and submission.answer:
            self._search(attempt, "the answer", submission.answer, [])

    def report(self) -> Report:
        return self._findings.report()

    def _search(self, attempt: FinishedAttempt, place: str, text: str, steps: list[int]) -> None:
        text = text[:_LONGEST]
        if place == "result" and "***" in text and (masked := _MASKED.search(text)):
            self._findings.add("own_key", attempt, f"in a result: {masked.group()}", steps)
        for found in _keys(text):
            if not any(word in found for word in self._ignore):
                self._findings.add("key", attempt, f"in {place}: {found[:4]}…", steps)
                return


def _keys(text: str) -> Iterator[str]:
    if any(mark in text for mark in _MARKS):
        for found in _SHAPES.finditer(text):
            if _looks_live(found.group()):
                yield found.group()
    if "-----BEGIN" in text and (found_private := _PRIVATE.search(text)):
        yield found_private.group()
    plain = text.lower()
    for found in _NAMED.finditer(text) if any(name in plain for name in _NAMES) else ():
        if (
            _looks_live(found[1])
            and re.search(r"\d", found[1])
            and re.search(r"[A-Za-z]", found[1])
        ):
            yield found[1]


def _looks_live(key: str) -> bool:
    return _DUMMY.search(key) is None and _bits(key) > 3.0


def _bits(key: str) -> float:
    """Shannon entropy per character: words and repeated characters are below 3."""
    counts = Counter(key).values()
    return -sum(n / len(key) * math.log2(n / len(key)) for n in counts)


def _texts(step: Step) -> Iterator[tuple[str, str]]:
    yield "the task" if step.source == "user" else "a message", step.message
    if step.reasoning_content:
        yield "the reasoning", step.reasoning_content
    for call in step.tool_calls or ():
        for value in call.arguments.values():
            yield "a call", value if isinstance(value, str) else str(value)
    for result in step.observation.results if step.observation else ():
        yield "result", result.content or ""


COMPONENT = Component(version="1", create=LeakedKeys, parameters=LeakedKeysParameters)
