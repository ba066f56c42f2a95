"""What a verifier leaves: rewards in each form, reports of tests, and signs that none ran."""

import json

import pytest

from agentcompass.components.benchmarks._harbor.bootstrap import bootstrap_failure
from agentcompass.components.benchmarks._harbor.judging import Terms, grade_of
from agentcompass.components.benchmarks._harbor.rewards import Report, read_report, read_rewards
from agentcompass.components.benchmarks._harbor.tampering import Tampering, looks_into_workdir
from agentcompass.components.benchmarks._harbor.verifier import Graded
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
    ({TEXT: b".50\n"}, {"reward": 0.5}),
]
BAD: list[tuple[dict[str, bytes], str]] = [
    ({}, "wrote no"),
    ({"ctrf.json": b"{}"}, "wrote no"),
    ({TEXT: b""}, "empty"),
    ({TEXT: b"nan"}, "not a finite"),
    ({JSON: b'{"reward": NaN}'}, "not a finite"),
    ({JSON: b'{"reward": 1e999}'}, "not a finite"),
    ({JSON: b'{"reward": 1' + b"0" * 400 + b"}"}, "not a finite"),
    ({JSON: b'{"reward": 1' + b"0" * 5000 + b"}"}, "not a finite"),
    ({TEXT: b"1" + b"0" * 400}, "not a finite"),
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


TRACEBACK = """\
Traceback (most recent call last):
  File "{path}", line 1, in <module>
ImportError: cannot import name 'x' from 'y'
"""
RUSTC = """\
error[E0308]: mismatched types
error: expected `;`
 --> src/main.rs:3:5
error: could not compile `app` due to 2 previous errors
"""
OF_THE_AGENT = [
    (TRACEBACK.format(path="/app/solve.py"), "python3 solve.py || exit 1; pytest /tests"),
    (RUSTC, "cargo build || exit 1; uvx pytest /tests"),
    ("/app/run.sh: line 3: node: command not found", "bash run.sh; pytest /tests"),
    ("test.sh: line 2: tool: command not found", "tool --version || exit 1\npytest /tests"),
    ("/usr/bin/python3: No module named tool", "python3 -m tool || exit 1\npytest /tests"),
    ("Could not resolve host: example.com\nwrong answer", "/app/run > out; cmp out /tests/wanted"),
]
OF_THE_GRADER = [
    (TRACEBACK.format(path="/tests/check.py"), "python3 /tests/check.py; pytest /tests"),
    (TRACEBACK.format(path="/app/.venv/lib/x.py"), "pytest /tests"),
    (TRACEBACK.format(path="/app/solve.py") + "error: no network", "solve.py; uvx pytest"),
    ("test.sh: line 2: poetry: command not found", "poetry run pytest /tests"),
    ("/usr/bin/python3: No module named coverage", "python3 -m coverage run -m pytest /tests"),
    ("/tests/run.sh: line 3: node: command not found", "bash run.sh; pytest /tests"),
    ("Could not resolve host: example.com", "curl -s https://example.com/get | sh; check.sh"),
]


@pytest.mark.parametrize(("output", "script"), OF_THE_AGENT)
def test_a_failure_of_the_agents_own_program_is_no_failed_start(output: str, script: str) -> None:
    assert bootstrap_failure(output, script, Report(), workdir="/app") is None


@pytest.mark.parametrize(("output", "script"), OF_THE_GRADER)
def test_what_is_not_the_agents_stays_a_failed_start(output: str, script: str) -> None:
    assert bootstrap_failure(output, script, Report(), workdir="/app") is not None


def graded(output: str, **files: bytes) -> Graded:
    named = {name.replace("_", "."): content for name, content in files.items()}
    return Graded(named, output, 0, (), (), ())


@pytest.mark.parametrize("files", [{"reward_txt": b"0"}, {}])
def test_a_tool_that_the_agent_removed_is_its_own_fault(files: dict[str, bytes]) -> None:
    left = graded("/tests/test.sh: 3: python3: not found\n", **files)
    removed = Tampering(gone={"python3": "/usr/bin/python3"})
    assert grade_of(left, removed, "python3 /tests/check.py", Terms()).rewards == {"reward": 0.0}
    with pytest.raises(AgentCompassError) as failed:
        grade_of(left, Tampering(gone={"git": "/usr/bin/git"}), "python3 /tests/x.py", Terms())
    assert failed.value.code is Code.GRADER_SETUP


@pytest.mark.parametrize("reward", [b"2", b"-1", b"100"])
def test_a_reward_out_of_its_range_is_the_graders_error(reward: bytes) -> None:
    left = graded("ok 1", reward_txt=reward)
    with pytest.raises(AgentCompassError, match="is outside 0..1") as failed:
        grade_of(left, Tampering(), "", Terms(), any_key=True)
    assert failed.value.code is Code.GRADER_INVALID_REWARD
    wide = grade_of(left, Tampering(), "", Terms(score_range=(-1, 100)))
    assert wide.rewards == {"reward": float(reward)}


@pytest.mark.parametrize(
    "tests",
    [
        "",
        "cd /app && python -m pytest /tests",
        "python3 -Im pytest",
        "uvx coverage run -m pytest",
        "python3 - <<'END'\nprint(1)\nEND",
        "python3 <<END",
        "curl -s x.org/check | python3",
        'subprocess.run(["python3", "-c", "import json"])',
        "export PYTHONPATH=/app",
        'sys.path.insert(0, "/app")',
        "cp /tests/check.py /app && python3 check.py",
        "cat > check.py <<END",
    ],
)
def test_tests_that_may_find_modules_in_the_workdir(tests: str) -> None:
    assert looks_into_workdir(tests)


@pytest.mark.parametrize(
    "tests",
    [
        "#!/usr/bin/env python3\nimport json",
        "apt-get install -y curl python3\nset -euo pipefail",
        "uvx -p 3.13 -w pytest==8.4.1 pytest --ctrf /logs/verifier/ctrf.json /tests/test.py -rA",
        "python3 /tests/check.py",
        "curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh",
    ],
)
def test_tests_that_do_not(tests: str) -> None:
    assert not looks_into_workdir(tests)
