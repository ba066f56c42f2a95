"""A verifier that cannot get its tools has judged nothing (C56): unscored, with its own words."""

import asyncio
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.harbor_folder import (
    TASK,
    benchmark,
    terminal_bench,
    try_task,
    write_task,
)
from tests.components.environments.docker_boxes import Site, gateway
from tests.components.environments.docker_engine import needs_engine

pytestmark = needs_engine

BOOTSTRAP = """\
#!/bin/bash
curl -LsSf http://127.0.0.1:9/install.sh | sh
pytest /tests/test_answer.py
if [ $? -eq 0 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
"""
PYTEST = """\
#!/bin/sh
[ "$(cat /app/answer.txt)" = 42 ] && { echo '1 passed in 0.01s'; exit 0; }
echo '1 failed in 0.01s'; exit 1
"""


def test_missing_tools_leave_the_right_answer_unscored(tmp_path: Path) -> None:
    """With the tool there the same answer scores."""
    folder = write_task(tmp_path, tests=BOOTSTRAP)
    for made in (benchmark(folder), terminal_bench(folder)):
        with pytest.raises(AgentCompassError, match=r"pytest: command not found") as failed:
            try_task(made, "echo 42 > answer.txt")
        assert failed.value.code is Code.GRADER_SETUP

    tests = BOOTSTRAP.replace("\npytest", "\n/tests/pytest")
    ready = write_task(tmp_path, "ready", tests=tests, files={"tests/pytest": PYTEST})
    (ready / "tests" / "pytest").chmod(0o755)
    assert try_task(benchmark(ready), "echo 42 > answer.txt").value == 1.0
    assert try_task(benchmark(ready), "echo 41 > answer.txt").value == 0.0


def test_a_network_that_is_cut_is_no_wrong_answer(tmp_path: Path) -> None:
    fetch = "python3 -c 'import urllib.request as u; u.urlopen(\"http://tools.example.org/x\")'"
    tests = f"#!/bin/bash\n{fetch} || echo 0 > /logs/verifier/reward.txt\n"
    with pytest.raises(AgentCompassError, match="could not start its tests") as failed:
        try_task(benchmark(write_task(tmp_path, tests=tests)), "echo 42 > answer.txt")
    assert failed.value.code is Code.GRADER_SETUP


def test_tests_that_ran_and_failed_are_a_result(tmp_path: Path) -> None:
    """Also when a program of the agent's is what was not found."""
    tests = "#!/bin/bash\n/app/program || echo 0 > /logs/verifier/reward.txt\n"
    tests += "exec 3<>/dev/tcp/127.0.0.1/9 || echo 0 > /logs/verifier/reward.txt\n"
    graded = try_task(benchmark(write_task(tmp_path, tests=tests)))
    assert graded.value == 0.0
    assert "No such file" in graded.evidence


@pytest.mark.parametrize(
    ("agent", "verifier"), [("no-network", "public"), ("public", "no-network")]
)
def test_each_phase_has_its_own_network(tmp_path: Path, agent: str, verifier: str) -> None:
    host = asyncio.run(gateway())
    with Site("tools", host) as site:
        probe = (
            "python3 -c 'import urllib.request as u; "
            f'print(u.urlopen("http://{host}:{site.port}/", timeout=3).read())\' 2>&1'
        )
        toml = TASK.replace('network_mode = "no-network"\n', "")
        toml = toml.replace("[agent]", f'[agent]\nnetwork_mode = "{agent}"')
        toml = toml.replace("[verifier]", f'[verifier]\nnetwork_mode = "{verifier}"')
        tests = f"#!/bin/sh\n{probe} && echo reached || echo cut\n"
        tests += "echo ok 1; echo 1 > /logs/verifier/reward.txt\n"
        made = benchmark(write_task(tmp_path, toml=toml, tests=tests))

        async def act(env: Environment) -> None:
            reached = (await env.exec(probe)).ok
            assert reached is (agent == "public")

        graded = try_task(made, act)
    assert ("\nreached" in graded.evidence) is (verifier == "public")
