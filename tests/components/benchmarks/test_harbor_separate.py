"""Harbor tasks graded in a sandbox of their own, made from another image than the agent's."""

from pathlib import Path

from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.protocols import Benchmark
from agentcompass.components.contracts.requirements import Requirements, Setup
from tests.components.benchmarks.harbor_folder import (
    TASK,
    TESTS,
    benchmark,
    solve,
    try_task,
    write_task,
)
from tests.components.environments.docker_engine import IMAGE, needs_engine
from tests.standins.parts import parts, says_yes

DOCKERFILE = f"FROM {IMAGE}\nCOPY . /tests\nRUN mkdir -p /app && touch /graders-own\n"
SEPARATE = 'artifacts = ["/app/answer.txt", "/logs/verifier/", "/tests"]\n' + TASK.replace(
    "[verifier]", '[verifier]\nenvironment_mode = "separate"'
)
LOOKS = TESTS + (
    "[ -e /graders-own ] && [ -x /tests/test.sh ] || rm -f /logs/verifier/*\n"
    "for path in /app/undeclared /tests/planted /usr/local/bin/cat /root/.bashrc-planted; do\n"
    '    if [ -e "$path" ]; then echo "saw $path"; rm -f /logs/verifier/*; fi\n'
    "done\n"
)
PLANT = (
    "touch undeclared /root/.bashrc-planted; mkdir -p /tests /logs/verifier /usr/local/bin;"
    "echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; touch /tests/planted;"
    "echo 1 > /logs/verifier/reward.txt; echo 1 > /logs/verifier/reward.json;"
    "printf '#!/bin/sh\\necho 42\\n' > /usr/local/bin/cat; chmod +x /usr/local/bin/cat"
)


def _own_image(tmp_path: Path, toml: str = SEPARATE) -> Benchmark:
    files = {"tests/Dockerfile": DOCKERFILE}
    return benchmark(write_task(tmp_path, toml=toml, tests=LOOKS, files=files))


@needs_engine
def test_it_sees_the_declared_outputs_and_nothing_else_of_the_agents(tmp_path: Path) -> None:
    made = _own_image(tmp_path)
    solved = try_task(made, solve(made))
    assert solved.value == 1.0, solved.evidence
    assert try_task(made).value == 0.0
    planted = try_task(made, PLANT)
    assert planted.value == 0.0, planted.evidence
    assert "saw" not in planted.evidence
    assert "/tests/test.sh: is the grader's place" in planted.notes
    with_work = try_task(made, f"echo 42 > answer.txt; {PLANT}")
    assert with_work.value == 1.0, with_work.evidence


@needs_engine
def test_an_image_of_its_own_without_tests_is_not_what_is_uploaded_to(tmp_path: Path) -> None:
    # [verifier.environment] that names no image: the task's image, with the grader's settings.
    toml = 'artifacts = ["/app/answer.txt"]\n' + TASK
    toml += '[verifier.environment]\nnetwork_mode = "no-network"\nenv = {MODE = "strict"}\n'
    tests = TESTS + '[ "$MODE" = strict ] || rm /logs/verifier/*\n'
    made = benchmark(write_task(tmp_path, toml=toml, tests=tests))
    assert try_task(made, solve(made)).value == 1.0
    assert try_task(made).value == 0.0


@needs_engine
def test_what_is_planted_among_the_outputs_does_not_decide(tmp_path: Path) -> None:
    toml = 'artifacts = ["/app"]\n' + TASK
    toml = toml.replace("[verifier]", '[verifier]\nenvironment_mode = "separate"')
    check = "import pathlib, sys; sys.exit(pathlib.Path('answer.txt').read_text() != '42\\n')"
    tests = f'#!/bin/bash\ncd /app; touch answer.txt\npython3 -c "{check}" && r=1 || r=0\n'
    tests += "echo ok 1; echo $r > /logs/verifier/reward.txt\n"
    made = benchmark(write_task(tmp_path, toml=toml, tests=tests))
    plant = "printf 'import os\\nos._exit(0)\\n' > pathlib.py"
    cheat = try_task(made, f"{plant}; echo x = 1 > statistics.py")
    assert cheat.value == 0.0, cheat.evidence
    assert "/app/pathlib.py was set aside" in cheat.notes
    assert "graded without /app/pathlib.py: if the work needs it" in cheat.notes
    assert "statistics" not in cheat.notes
    assert try_task(made, f"{plant}; echo 42 > answer.txt").value == 1.0


def test_a_task_of_each_kind_in_one_data_set(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    write_task(tasks, "shared")
    write_task(tasks, "apart", toml=SEPARATE, files={"tests/Dockerfile": DOCKERFILE})
    samples = {one.task.id: one for one in benchmark(tasks).load(tmp_path / "data").samples}
    assert samples["shared"].task.verification == "reuse"
    grading = samples["apart"].task.grading
    assert grading is not None
    assert grading.image is None
    assert grading.build is not None
    assert grading.build.context == str(tasks / "apart" / "tests")
    assert samples["apart"].task.requirements.image == IMAGE


def test_an_image_of_the_users_is_for_the_agent_all_else_for_both(tmp_path: Path) -> None:
    task = _own_image(tmp_path).load(tmp_path / "data").samples[0].task

    def wanted(**own: object) -> Requirements:
        user = EnvironmentParameters(setup=Setup(image="theirs"), env={"A": "1"})
        made_of = parts(says_yes)
        object.__setattr__(made_of, "environment_parameters", user)
        assert made_of.requirements(task).image == "theirs"
        return made_of.grading_requirements(task.model_copy(update=own))

    assert wanted().image is None
    assert wanted().build is not None
    assert wanted().env["A"] == "1"
    assert wanted(grading=task.requirements).image == "theirs"
    assert wanted(grading=None).image == "theirs"
