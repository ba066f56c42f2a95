"""What a verifier left under /logs/verifier: the reward, and which tests stand behind it."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass

from agentcompass.components.contracts.attempt import Evidence
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.reward import parse_reward

REWARD_MAX_BYTES = 64 * 1024
SHOWN_TESTS = 200
TEXT_LIMIT = 1000


@dataclass(frozen=True)
class Report:
    """Outcomes of single tests, from CTRF (JSON) or JUnit (XML) files."""

    tests: tuple[Evidence, ...] = ()

    @property
    def failed(self) -> int:
        return sum(test.passed is False for test in self.tests)

    @property
    def passed(self) -> int:
        return sum(test.passed is True for test in self.tests)


def read_rewards(
    files: Mapping[str, bytes], key: str, *, any_key: bool = False
) -> dict[str, float]:
    """Names to finite numbers; `reward.json` counts before `reward.txt`.

    A plain number is the reward itself. Raises grader.invalid_reward: nothing there, not flat,
    not numbers, or no `key` among them (with `any_key`: none at all).
    """
    name = next((name for name in ("reward.json", "reward.txt") if name in files), None)
    if name is None:
        raise AgentCompassError(
            Code.GRADER_INVALID_REWARD, "the verifier wrote no /logs/verifier/reward.json or .txt"
        )
    content = files[name]
    if len(content) > REWARD_MAX_BYTES:
        raise AgentCompassError(Code.GRADER_INVALID_REWARD, f"{name} has {len(content)} bytes")
    value = _mapping(content) if name == "reward.json" else None
    if value is None:
        return {key: parse_reward(content)}
    rewards = {}
    for entry, number in value.items():
        if not isinstance(number, bool | int | float) or not math.isfinite(number):
            raise AgentCompassError(
                Code.GRADER_INVALID_REWARD,
                f"reward.json: {entry[:60]!r} is {str(number)[:60]!r}, not a finite number",
            )
        rewards[entry] = float(number)
    if key not in rewards and not (any_key and rewards):
        there = ", ".join(sorted(rewards)[:10]) or "nothing"
        raise AgentCompassError(
            Code.GRADER_INVALID_REWARD, f"reward.json has no {key!r}; there: {there}"
        )
    return rewards


def _mapping(content: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_report(files: Mapping[str, bytes]) -> Report:
    """All reports together; what cannot be read as one is passed over."""
    tests: list[Evidence] = []
    for name in sorted(files):
        if name.startswith("reward."):
            continue
        if name.endswith(".json"):
            tests += _ctrf(files[name])
        elif name.endswith(".xml"):
            tests += _junit(files[name])
    return Report(tuple(tests))


_CTRF = {"passed": True, "failed": False}


def _ctrf(content: bytes) -> list[Evidence]:
    """https://ctrf.io: results.tests[] with name, status, message, trace."""
    value = _mapping(content)
    results = value.get("results") if value else None
    listed = results.get("tests") if isinstance(results, dict) else None
    found = []
    for test in listed if isinstance(listed, list) else ():
        if isinstance(test, dict) and isinstance(test.get("name"), str):
            status = str(test.get("status"))
            text = " ".join(str(test[key]) for key in ("message", "trace") if test.get(key))
            found.append(_test(test["name"], _CTRF.get(status), text or status))
    return found


def _junit(content: bytes) -> list[Evidence]:
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        return []  # entities may expand without end
    try:
        root = ElementTree.fromstring(content)  # noqa: S314
    except ElementTree.ParseError:
        return []
    found = []
    for case in root.iter("testcase"):
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        bad = [child for child in case if child.tag in ("failure", "error")]
        skipped = any(child.tag == "skipped" for child in case)
        text = " ".join(filter(None, (bad[0].get("message"), bad[0].text))) if bad else ""
        passed = False if bad else None if skipped else True
        found.append(_test(name or "?", passed, text or ("skipped" if skipped else "passed")))
    return found


def _test(name: str, passed: bool | None, text: str) -> Evidence:
    clean = re.sub("[\0\ud800-\udfff]", "\ufffd", text)
    return Evidence(name=name[:300], passed=passed, text=clean[:TEXT_LIMIT])


_RAN = re.compile(
    r"test session starts|^collected \d+ items?|\b\d+ (passed|failed)\b|^Ran \d+ tests? in"
    r"|^(not )?ok \d",
    re.MULTILINE,
)
_TOOLS = (
    "curl|wget|uv|uvx|pytest|py\\.test|pip3?|python3?|apt-get|apt|apk|npm|npx|node|git|tox|nox|bats"
)
_INSIDE = r"localhost|127\.|::1|0\.0\.0\.0|\.local\b|\.test\b|\.internal\b|\.lan\b"
"""Addresses of services that a task asks for: not reaching them is the agent's failure."""
_NO_TOOL = re.compile(
    rf"(^|[\s:])({_TOOLS}): (command )?not found$|No module named '?_?(pytest|uv|pip)\b"
    rf"|(?!.*({_INSIDE}))([Cc]ould not resolve|Temporary failure (in name )?resol"
    r"|Name or service not known|Failed to fetch\b|error sending request|unable to resolve host)"
    r"|Unable to locate package|Could not find a version that satisfies|No matching distribution"
    r"|No interpreter found for Python|\.local/bin/env: No such file"
)
_BEFORE_PYTEST = re.compile(
    r"^error(:|\[)|^ERROR: |^E: |^curl: \(\d+\)|^wget: |No module named|command not found$"
    r"|: not found$|ModuleNotFoundError|ImportError|bad interpreter"
)


def bootstrap_failure(output: str, script: str, report: Report) -> str | None:
    """The line that says why no test ever ran; None if tests ran, or nothing speaks against it.

    A verifier that first downloads its tools, fails, and goes on to write 0 has judged nothing.
    An error of a missing tool or a dead network must stand in the output; where the script would
    start pytest and pytest did not start, any installer's error will do. A script that finds the
    agent's work missing before it starts any test has judged.
    """
    if report.tests or _RAN.search(output):
        return None
    sign = _BEFORE_PYTEST if "pytest" in script else _NO_TOOL
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines()]
    told = [line for line in lines if _NO_TOOL.search(line) or sign.search(line)]
    return told[-1][:300] if told else None
