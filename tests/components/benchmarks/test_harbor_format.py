"""task.toml and task folders: old spellings, unknown keys, refusals, and what becomes of them."""

import logging
from pathlib import Path

import pytest

from agentcompass.components.benchmarks import harbor_tasks
from agentcompass.components.benchmarks._harbor.rounds import rounds_of
from agentcompass.components.benchmarks._harbor.samples import rebased
from agentcompass.components.benchmarks._harbor.task_folder import (
    UnusableTask,
    read_task,
    without_canary,
)
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.recipe import RecipeContext
from agentcompass.components.contracts.requirements import AllowedHosts
from agentcompass.components.contracts.task import Task
from agentcompass.components.execution.requirements import requirements_of
from agentcompass.components.recipes import harbor_daytona
from tests.components.benchmarks.harbor_folder import TASK, benchmark, write_task
from tests.components.environments.docker_engine import IMAGE

OLD = """\
version = "1.0"
[environment]
docker_image = "x"
memory = "2G"
storage = "512M"
allow_internet = false
"""
FULL = """\
schema_version = "1.4"
artifacts = ["/app/out", {source = "/app/x", exclude = ["*.pyc"]}]
[task]
name = "org/full"
[metadata]
difficulty = "hard"
category = "security"
[agent]
timeout_sec = 900.5
user = 1000
network_mode = "allowlist"
allowed_hosts = ["pypi.org", "*.debian.org"]
[verifier]
timeout_sec = 30
env = {KEY = "${SOME_KEY}", LEVEL = "${HARBOR_NONE:-3}"}
network_mode = "no-network"
[environment]
docker_image = "org/full:1"
cpus = 1.5
memory_mb = 4096
storage_mb = 10240
gpus = 1
build_timeout_sec = 60
workdir = "/srv"
env = {MODE = "plain"}
"""


def task_of(tmp_path: Path, toml: str, **parameters: object) -> Task:
    made = benchmark(write_task(tmp_path, toml=toml), **parameters)
    return made.load(tmp_path / "data").samples[0].task


def test_old_spellings_are_read(tmp_path: Path) -> None:
    required = task_of(tmp_path, OLD).requirements
    assert required.resources.memory_mb == 2048
    assert required.network.baseline == "none"
    assert not read_task(tmp_path / "answer").unknown_keys


def test_everything_a_task_asks_for_is_in_its_requirements(tmp_path: Path) -> None:
    task = task_of(tmp_path, FULL)
    required = task.requirements
    assert (task.id, task.category) == ("answer", "security")
    assert (task.run_timeout_seconds, task.evaluation_timeout_seconds) == (900.5, 90)
    assert (required.image, required.workdir, required.user) == ("org/full:1", "/srv", "1000")
    limits = required.resources
    assert (limits.cpus, limits.memory_mb, limits.disk_mb, limits.gpus) == (1.5, 4096, None, 1)
    assert required.network.baseline == "public"
    assert required.network.run == AllowedHosts(allow=("pypi.org", "*.debian.org"))
    assert required.network.evaluation == "none"
    assert required.env == {"MODE": "plain"}
    assert required.evaluation_env == {"KEY": "${SOME_KEY}", "LEVEL": "3"}
    assert task.metadata == {"difficulty": "hard", "storage_mb": 10240}


def test_disk_is_allotted_where_the_environment_allots_it(tmp_path: Path) -> None:
    recipe = harbor_daytona.COMPONENT.create(harbor_daytona.COMPONENT.parameters())
    context = RecipeContext(
        benchmark="harbor_tasks",
        benchmark_params={},
        harness="idle",
        environment="daytona",
        model="none",
    )
    task = task_of(tmp_path, OLD)
    assert recipe.match.fits(context)
    assert not recipe.match.fits(context.model_copy(update={"environment": "docker"}))
    required, _ = requirements_of(
        task, EnvironmentParameters(), [("harbor_daytona", recipe)], context
    )
    assert (required.resources.disk_mb, required.resources.memory_mb) == (512, 2048)


def test_a_default_gives_way_to_the_users_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOR_NONE", "a secret")
    required = task_of(tmp_path, FULL).requirements
    assert required.evaluation_env["LEVEL"] == "${HARBOR_NONE}"


def test_unknown_keys_are_told_and_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    toml = TASK.replace("[verifier]", "[verifier]\nretrys = 3").replace("[agent]", "[agent]\nx = 1")
    with caplog.at_level(logging.WARNING):
        task = task_of(tmp_path, toml + "\n[enviroment]\ncpus = 1\n")
    assert task.metadata["unknown_keys"] == ["enviroment", "agent.x", "verifier.retrys"]
    assert "unknown key verifier.retrys" in caplog.text


def test_skills_for_the_agent_are_told_as_ignored(tmp_path: Path) -> None:
    task = task_of(tmp_path, TASK.replace("workdir", 'skills_dir = "/skills"\nworkdir'))
    assert task.metadata["unknown_keys"] == ["environment.skills_dir"]


REFUSED = {
    "newer": ('schema_version = "1.5"\n' + TASK.split("\n", 1)[1], "newer than"),
    "windows": (TASK.replace("workdir", 'os = "Windows"\nworkdir'), "needs windows"),
    "gpu kind": (TASK.replace("workdir", 'gpus = 1\ngpu_types = ["H100"]\nworkdir'), "H100"),
    "tpu": (TASK + '[environment.tpu]\ntype = "v4"\ntopology = "2x2"\n', "TPU"),
    "mcp": (TASK + '[[environment.mcp_servers]]\nname = "x"\nurl = "http://x"\n', "MCP"),
    "untold step": (TASK + '[[steps]]\nname = "one"\n', "steps/one/instruction.md cannot be"),
    "step elsewhere": (TASK + '[[steps]]\nname = "../one"\n', "no name for a folder"),
    "windows grader": (
        TASK + '[verifier.environment]\ndocker_image = "y"\nos = "windows"\n',
        "sandbox that needs",
    ),
    "sidecar": ('artifacts = [{source = "/d", service = "db"}]\n' + TASK, "container (db)"),
    "no image": (TASK.replace("docker_image", "#"), "neither environment/Dockerfile"),
    "size": (OLD.replace("2G", "much"), "is not a size"),
    "two sizes": (OLD + "memory_mb = 1\n", "contradict"),
    "type": (TASK.replace("timeout_sec = 60", 'timeout_sec = "long"', 1), "agent.timeout_sec"),
    "escape": ('artifacts = ["/app/../etc"]\n' + TASK, "leaves its folder"),
    "hosts": (TASK.replace("[agent]", '[agent]\nallowed_hosts = ["x"]'), "allowlist"),
    "toml": ("[agent\n", "task.toml cannot be read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    toml, reason = REFUSED[case]
    folder = write_task(tmp_path, toml=toml)
    with pytest.raises(UnusableTask) as refused:
        rounds_of(read_task(folder))
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["docker-compose.yaml", "compose.yml"])
def test_several_containers_are_refused(tmp_path: Path, name: str) -> None:
    folder = write_task(tmp_path, files={f"environment/{name}": "services: {}\n"})
    with pytest.raises(UnusableTask, match="several containers"):
        read_task(folder)


def test_one_unusable_task_stops_the_run_unless_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = tmp_path / "tasks"
    write_task(tasks, "good")
    write_task(tasks, "bad", toml=REFUSED["windows"][0])
    with pytest.raises(RequestError, match="bad: needs windows") as refused:
        benchmark(tasks)
    assert "skip_unsupported" in str(refused.value)
    for parameters in ({"skip_unsupported": True}, {"sample_ids": ("good",)}):
        made = benchmark(tasks, **parameters)
        assert [s.task.id for s in made.load(tmp_path / "data").samples] == ["good"]
    assert "left out: bad" in caplog.text
    with pytest.raises(RequestError, match="bad: needs windows"):
        benchmark(tasks, sample_ids=("bad",))


def test_each_task_says_where_it_is_graded(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    write_task(tasks, "shared")
    separate = TASK.replace("[verifier]", '[verifier]\nenvironment_mode = "separate"')
    write_task(tasks, "apart", toml=separate)
    own = TASK + '[verifier.environment]\ndocker_image = "grader"\ncpus = 2\n'
    write_task(tasks, "own", toml=own)
    samples = benchmark(tasks).load(tmp_path / "data").samples
    found = {one.task.id: (one.task.verification, one.task.grading) for one in samples}
    assert found["shared"] == ("reuse", None)
    place, copy = found["apart"]
    assert (place, copy.image, copy.network.baseline) == ("fresh", IMAGE, "none")
    place, other = found["own"]
    assert (place, other.image, other.resources.cpus) == ("fresh", "grader", 2)
    assert other.network.baseline == "public"


def test_the_hash_follows_every_file(tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    seen = {read_task(folder).content_hash}
    for path in ("tests/test.sh", "solution/solve.sh", "instruction.md", "task.toml"):
        (folder / path).write_text((folder / path).read_text() + "\n# more\n")
        seen.add(read_task(folder).content_hash)
    (folder / "tests" / "test.sh").chmod(0o755)
    seen.add(read_task(folder).content_hash)
    assert len(seen) == 6
    (folder / "tests" / "__pycache__").mkdir()
    (folder / "tests" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert read_task(folder).content_hash in seen


def test_a_canary_is_not_for_the_agent() -> None:
    text = "<!-- harbor-canary GUID 1 -->\n# terminal-bench-canary\n\nDo it.\n# canary stays\n"
    assert without_canary(text) == "Do it.\n# canary stays\n"
    assert without_canary("\nDo it.\n") == "\nDo it.\n"


DOCKERFILE = """\
# FROM ubuntu:24.04
FROM ubuntu:24.04 AS build
RUN echo FROM ubuntu:24.04
from --platform=linux/amd64 python:3.13
FROM build
"""


def test_other_images_stand_in_from_lines_only() -> None:
    mapped = rebased(DOCKERFILE, {"ubuntu:24.04": "local/u", "python:3.13": "local/p"})
    assert mapped == DOCKERFILE.replace("FROM ubuntu:24.04 AS", "FROM local/u AS").replace(
        "amd64 python:3.13", "amd64 local/p"
    )
    assert rebased("FROM debian:latest\n", {"debian": "local/d"}) == "FROM local/d\n"


def test_image_or_build(tmp_path: Path) -> None:
    write_task(tmp_path, files={"environment/Dockerfile": DOCKERFILE, "environment/data": "x"})
    folder = tmp_path / "answer"

    def required(**parameters: object):  # type: ignore[no-untyped-def]
        made = benchmark(folder, **parameters)
        return made.load(tmp_path / "data").samples[0].task.requirements

    published, built = required(), required(images="build")
    assert published.image is not None
    assert published.build is None
    assert built.image is None
    assert built.build.context == str(folder / "environment")
    mapped = required(from_images={"ubuntu:24.04": "local/u"}).build
    assert mapped == required(from_images={"ubuntu:24.04": "local/u"}).build
    assert "FROM local/u AS build" in (Path(mapped.context) / "Dockerfile").read_text()
    assert (Path(mapped.context) / "data").read_text() == "x"
    assert "local/u" not in (folder / "environment" / "Dockerfile").read_text()


def test_parameters_are_documented() -> None:
    for name, field in harbor_tasks.COMPONENT.parameters.model_fields.items():
        assert field.description, name
