"""What a verifier leaves: rewards in each form, reports of tests, and signs that none ran."""

import json

import pytest

from agentcompass.components.benchmarks._harbor.rewards import (
    Report,
    bootstrap_failure,
    read_report,
    read_rewards,
)
from agentcompass.components.contracts.attempt import Evidence
from agentcompass.components.contracts.errors import AgentCompassError, Code

JSON, TEXT = "reward.json", "reward.txt"

GOOD: list[tuple[dict[str, bytes], dict[str, float]]] = [
    ({TEXT: b"1\n"}, {"reward": 1.0}),
    ({TEXT: b"\xef\xbb\xbf0.25\r\n"}, {"reward": 0.25}),
    ({JSON: b'{"reward": 0.5, "speed": 3}'}, {"reward": 0.5, "speed": 3.0}),
    ({JSON: b'{"reward": 0}', TEXT: b"1"}, {"reward": 0.0}),
    ({JSON: b'{"reward": true}'}, {"reward": 1.0}),
    ({JSON: b"0.5"}, {"reward": 0.5}),
]
BAD: list[tuple[dict[str, bytes], str]] = [
    ({}, "wrote no"),
    ({"ctrf.json": b"{}"}, "wrote no"),
    ({TEXT: b""}, "empty"),
    ({TEXT: b"nan"}, "not a finite"),
    ({JSON: b'{"reward": NaN}'}, "not a finite"),
    ({JSON: b'{"reward": 1e999}'}, "not a finite"),
    ({JSON: b'{"reward": "1"}'}, "not a finite"),
    ({JSON: b'{"reward": {"a": 1}}'}, "not a finite"),
    ({JSON: b'{"accuracy": 1}'}, "no 'reward'; there: accuracy"),
    ({JSON: b"{}", TEXT: b"1"}, "no 'reward'; there: nothing"),
    ({JSON: b"[1]"}, "not a finite"),
    ({JSON: b"{", TEXT: b"1"}, "not a finite"),
    ({TEXT: b"1" * 100_000}, "100000 bytes"),
]


@pytest.mark.parametrize(("files", "rewards"), GOOD)
def test_rewards_that_count(files: dict[str, bytes], rewards: dict[str, float]) -> None:
    assert read_rewards(files, "reward") == rewards


@pytest.mark.parametrize(("files", "why"), BAD)
def test_rewards_that_do_not(files: dict[str, bytes], why: str) -> None:
    with pytest.raises(AgentCompassError, match=why) as failed:
        read_rewards(files, "reward")
    assert failed.value.code is Code.GRADER_INVALID_REWARD


def test_another_key_may_be_the_reward() -> None:
    assert read_rewards({JSON: b'{"accuracy": 0.5}'}, "accuracy") == {"accuracy": 0.5}


def test_reports_of_both_kinds_become_evidence() -> None:
    tests = [
        {"name": "a::b", "status": "passed"},
        {"name": "c", "status": "failed", "message": "no", "trace": "line 1"},
        {"name": "d", "status": "skipped"},
        {"status": "passed"},
    ]
    junit = (
        '<testsuites><testsuite><testcase classname="m" name="x[a b]"/><testcase name="y">'
        '<failure message="bad">trace</failure></testcase></testsuite></testsuites>'
    )
    files = {
        "ctrf.json": json.dumps({"results": {"tests": tests}}).encode(),
        "junit.xml": junit.encode(),
        "reward.json": b'{"results": {"tests": [{"name": "no", "status": "passed"}]}}',
        "other.json": b"[]",
        "bomb.xml": b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite><testcase name="&a;"/></testsuite>',
        "broken.xml": b"<",
    }
    report = read_report(files)
    assert [(test.name, test.passed) for test in report.tests] == [
        ("a::b", True),
        ("c", False),
        ("d", None),
        ("m::x[a b]", True),
        ("y", False),
    ]
    assert (report.passed, report.failed) == (2, 2)
    assert report.tests[1].text == "no line 1"


NO_TEST_RAN = [
    ("/tests/test.sh: line 6: pytest: command not found", "pytest -q"),
    ("/tests/test.sh: 6: pytest: not found", "pytest -q"),
    ("curl: (6) Could not resolve host: astral.sh", "curl https://astral.sh | sh; uvx pytest"),
    ("error: Failed to fetch: `https://index.example/simple/pytest/`", "uvx pytest"),
    ("error: No interpreter found for Python 3.13", "uvx -p 3.13 pytest"),
    ("/usr/bin/python3: No module named pytest", "python3 -m pytest"),
    ("\x1b[31merror\x1b[0m: something new", "uvx pytest"),
    ("E: Unable to locate package jq", "apt-get install jq; check.sh"),
    ("W: Failed to fetch http://mirror.example/x  Temporary failure resolving 'x'", "check.sh"),
    ("test.sh: line 3: curl: command not found", "curl https://x.org/check | sh"),
]
SOMETHING_RAN = [
    ("===== test session starts =====\ncollected 0 items / 1 error", "pytest"),
    ("curl: (6) Could not resolve host: x\n1 passed in 0.1s", "pytest"),
    ("not ok 1 - runs\ntest.sh: line 3: curl: command not found", "check.sh"),
    ("FAIL: /app/answer.txt is missing", "check.sh"),
    ("/tests/test.sh: line 2: /app/program: No such file or directory", "check.sh"),
    ("/tests/test.sh: 2: /app/program: not found", "check.sh"),
    ("/tests/test.sh: line 2: sqlite3: command not found", "check.sh"),
    ("curl: (7) Failed to connect to localhost port 8080: Connection refused", "check.sh"),
    ("curl: (6) Could not resolve host: shop.local", "check.sh"),
    ("no answer file", "[ -e /app/answer ] || exit; pytest"),
]


@pytest.mark.parametrize(("output", "script"), NO_TEST_RAN)
def test_a_verifier_that_never_got_to_its_tests(output: str, script: str) -> None:
    assert bootstrap_failure(output, script, Report()) is not None
    ran = Report((Evidence(name="t", passed=False),))
    assert bootstrap_failure(output, script, ran) is None


@pytest.mark.parametrize(("output", "script"), SOMETHING_RAN)
def test_a_verifier_that_judged(output: str, script: str) -> None:
    assert bootstrap_failure(output, script, Report()) is None
