"""What a verifier left under /logs/verifier: the reward, and which tests stand behind it."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass

from agentcompass.components.contracts.attempt import Evidence
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.reward import finite, parse_reward

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
    for entry, given in value.items():
        if (number := finite(given)) is None:
            raise AgentCompassError(
                Code.GRADER_INVALID_REWARD,
                f"reward.json: {entry[:60]!r} is {str(given)[:60]!r}, not a finite number",
            )
        rewards[entry] = number
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
