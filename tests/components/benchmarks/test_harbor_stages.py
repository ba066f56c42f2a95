"""Harbor tasks in real containers: solution full, idle nothing, and what the format asks for."""

from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.harbor_folder import (
    TASK,
    TESTS,
    benchmark,
    solve,
    terminal_bench,
    try_in_turn,
    try_task,
    write_task,
)
from tests.components.environments.docker_engine import needs_engine

pytestmark = needs_engine


def test_the_solution_scores_full_and_the_idle_agent_nothing(tmp_path: Path) -> None:
    made = benchmark(write_task(tmp_path))
    solved, idle = try_task(made, solve(made)), try_task(made)
    assert (solved.value, idle.value) == (1.0, 0.0)
    assert solved.notes == idle.notes == ""
    assert "ok 1 - the answer" in solved.evidence


def test_tests_arrive_only_after_the_agent(tmp_path: Path) -> None:
    made = benchmark(write_task(tmp_path))

    async def look(env: Environment) -> None:
        seen = await env.exec("ls -A /tests /solution 2>&1; find / -xdev -name test.sh 2>/dev/null")
        assert "test.sh" not in seen.stdout

    assert try_task(made, look).value == 0.0


def test_terminal_bench_wants_the_report_to_agree(tmp_path: Path) -> None:
    report = '{"results": {"tests": [{"name": "t", "status": "%s"}]}}'
    tests = "echo '%s' > /logs/verifier/ctrf.json\necho 1 > /logs/verifier/reward.txt\n"
    good = write_task(tmp_path, "good", tests="#!/bin/sh\n" + tests % (report % "passed"))
    bad = write_task(tmp_path, "bad", tests="#!/bin/sh\n" + tests % (report % "failed"))
    graded = try_task(terminal_bench(good))
    assert graded.verdict.correct is True
    assert [(e.name, e.passed) for e in graded.verdict.evidence][0] == ("t", True)
    with pytest.raises(AgentCompassError, match="1 tests failed") as failed:
        try_task(terminal_bench(bad))
    assert failed.value.code is Code.GRADER_INVALID_REWARD


def test_other_numbers_of_the_reward_are_metrics(tmp_path: Path) -> None:
    tests = '#!/bin/sh\necho \'{"reward": 0.5, "speed": 2}\' > /logs/verifier/reward.json\n'
    tests += "echo 1 > /logs/verifier/reward.txt\n"
    graded = try_task(benchmark(write_task(tmp_path, tests=tests)))
    assert graded.verdict.score == 0.5
    assert graded.verdict.metrics == {"speed": 2.0}


def test_a_missing_reward_is_the_graders_error(tmp_path: Path) -> None:
    with pytest.raises(AgentCompassError) as failed:
        try_task(benchmark(write_task(tmp_path, tests="#!/bin/sh\necho ok 1\n")))
    assert failed.value.code is Code.GRADER_INVALID_REWARD


def test_users_of_agent_and_verifier(tmp_path: Path) -> None:
    toml = TASK.replace("[agent]", '[agent]\nuser = "nobody"').replace(
        'workdir = "/app"', 'workdir = "/tmp/app"'
    )
    tests = TESTS.replace("/app/", "/tmp/app/") + "[ $(id -u) = 0 ] || rm /logs/verifier/*\n"
    made = benchmark(write_task(tmp_path, toml=toml, tests=tests))
    graded = try_task(made, "[ $(id -un) = nobody ] && echo 42 > answer.txt")
    assert graded.value == 1.0, graded.evidence


def test_the_verifier_may_be_a_user_without_rights(tmp_path: Path) -> None:
    toml = TASK.replace("[verifier]", '[verifier]\nuser = "nobody"')
    tests = TESTS + "[ $(id -un) = nobody ] || rm /logs/verifier/*\n"
    made = benchmark(write_task(tmp_path, toml=toml, tests=tests))
    assert try_task(made, "echo 42 > answer.txt").value == 1.0


def test_the_health_check_is_waited_for(tmp_path: Path) -> None:
    check = '[environment.healthcheck]\ncommand = "%s"\ninterval_sec = 0.05\nretries = 3\n'
    counting = "echo x >> /tmp/n; [ $(wc -l < /tmp/n) -ge 3 ]"
    made = benchmark(write_task(tmp_path, "late", toml=TASK + check % counting))
    assert try_task(made, "[ $(wc -l < /tmp/n) = 3 ]").value == 0.0
    ill = benchmark(write_task(tmp_path, "ill", toml=TASK + check % "echo no database; false"))
    with pytest.raises(AgentCompassError, match="no database") as failed:
        try_task(ill)
    assert failed.value.code is Code.ENVIRONMENT_SETUP


def test_variables_of_environment_verifier_and_solution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOR_TEST_KEY", "it's a secret")
    toml = TASK + '[environment.env]\nMODE = "${HARBOR_TEST_NONE:-plain}"\nTZ = "Asia/Tokyo"\n'
    toml += '[solution.env]\nKEY = "${HARBOR_TEST_KEY}"\n'
    tests = '#!/bin/sh\necho ok "$MODE $TZ $PYTHONHASHSEED"; cat /app/key\n'
    tests += "echo 1 > /logs/verifier/reward.txt\n"
    solution = '#!/bin/sh\necho "$KEY" > key\n'
    folder = write_task(tmp_path, toml=toml, tests=tests, files={"solution/solve.sh": solution})
    made = benchmark(folder)
    sample = made.load(tmp_path).samples[0]
    assert "secret" not in (made.solution(sample).command or "")
    graded = try_task(made, solve(made))
    assert "ok plain Asia/Tokyo 0" in graded.evidence
    assert "it's a secret" in graded.evidence


def test_a_separate_grader_sees_declared_outputs_and_nothing_else(tmp_path: Path) -> None:
    toml = 'artifacts = ["/app/answer.txt", {source = "/app/out", exclude = ["*.tmp"]}]\n' + TASK
    toml = toml.replace("[verifier]", '[verifier]\nenvironment_mode = "separate"')
    tests = TESTS + "ls -R /app; ls /logs/artifacts; ls /app/undeclared && rm /logs/verifier/*\n"
    toml += '[[verifier.collect]]\ncommand = "echo dump > /logs/artifacts/dump"\n'
    made = benchmark(write_task(tmp_path, toml=toml, tests=tests))
    assert made.load(tmp_path).samples[0].task.verification == "fresh"
    honest = "echo 42 > answer.txt; mkdir -p out/deep; echo x > out/deep/y; touch out/z.tmp"
    graded = try_task(made, f"{honest}; touch undeclared; echo 1 > /logs/verifier/reward.txt")
    assert graded.value == 1.0, graded.evidence
    names = {artifact.name for artifact in graded.submission.artifacts}
    assert names == {
        "outputs/app/answer.txt",
        "outputs/app/out/deep/y",
        "outputs/logs/artifacts/dump",
    }
    assert try_task(made).value == 0.0


def test_an_agent_may_call_its_modules_as_the_standard_library_does(tmp_path: Path) -> None:
    """Where the grader does not look into the workdir, or imports no such module to start."""
    tests = "#!/bin/bash\necho ok 1; python3 /app/main.py > /logs/verifier/reward.txt\n"
    files = "echo 'one = 1' | tee statistics.py calendar.py > code.py; echo '[tox]' > tox.ini; "
    files += "echo 'import calendar, code, statistics; print(statistics.one)' > main.py; "
    files += "mkdir sub; touch sub/conftest.py"
    graded = try_task(benchmark(write_task(tmp_path, tests=tests)), files)
    assert graded.value == 1.0, graded.evidence
    assert graded.notes == "grader.tampered: /app/sub/conftest.py was set aside"
    looks = tests.replace("/app/main.py", "-c 'from statistics import one; print(one)'")
    acts = [files, "rm -r sub; echo one = 0 > statistics.py"]
    graded, low = try_in_turn(benchmark(write_task(tmp_path, "looks", tests=looks)), acts)
    assert graded.value == 1.0, graded.evidence
    for path in ("/app/calendar.py", "/app/code.py"):
        assert f"{path} was set aside" in graded.notes
    assert "statistics" not in graded.notes
    assert "tox" not in graded.notes
    assert low.value == 0.0


def test_a_program_that_the_agent_removed_is_missing_by_its_fault(tmp_path: Path) -> None:
    tests = (
        "#!/bin/bash\npython3 /tests/check.py && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n"
    )
    graded = try_task(benchmark(write_task(tmp_path, tests=tests)), "rm $(command -v python3)")
    assert graded.value == 0.0
    assert "python3 was removed, and the verifier missed it" in graded.notes


def test_a_service_lives_on_while_other_processes_are_ended(tmp_path: Path) -> None:
    tests = """\
#!/bin/bash
python3 - <<'END' && echo ok 1 && echo 1 > /logs/verifier/reward.txt
import socket, sys
socket.create_connection(("127.0.0.1", 8123), timeout=5).close()
END
[ -e /logs/verifier/reward.txt ] || { echo not ok 1; echo 0 > /logs/verifier/reward.txt; }
"""
    service = "setsid python3 -m http.server 8123 > /dev/null 2>&1 & "
    loop = "setsid sh -c 'while :; do echo 1 > /logs/verifier/reward.txt; done' > /dev/null 2>&1 & "
    wait = (
        "for n in $(seq 100); do python3 -c 'import socket;"
        'socket.create_connection(("127.0.0.1", 8123))\' 2>/dev/null && break; sleep 0.1; done'
    )
    made = benchmark(write_task(tmp_path, tests=tests))
    served = try_task(made, service + loop + wait)
    assert served.value == 1.0, served.evidence
    assert "left running: python3" in served.evidence
    assert "ended before grading: sh" in served.evidence
    ended = try_task(
        benchmark(write_task(tmp_path, "strict", tests=tests), left_running="nothing"),
        service + wait,
    )
    assert ended.value == 0.0


def test_host_process_is_refused(tmp_path: Path) -> None:
    import asyncio

    from tests.components.benchmarks.sandboxes import sandbox

    made = benchmark(write_task(tmp_path))

    async def prepare() -> None:
        async with sandbox() as env:
            await made.prepare(made.load(tmp_path).samples[0].task, env)

    with pytest.raises(AgentCompassError, match="--env docker") as failed:
        asyncio.run(prepare())
    assert failed.value.code is Code.ENVIRONMENT_SETUP
