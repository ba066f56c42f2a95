"""`agentcompass env`: the real command over what is really left of sandboxes on this machine."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters
from tests.cli.conftest import Cli

HOST = ("--env", "host_process")


@pytest.fixture
def place(tmp_path: Path) -> str:
    """JSON for --env-params: sandboxes of this test only."""
    folder = tmp_path / "sandboxes"
    folder.mkdir()
    return json.dumps({"temp_dir": str(folder)})


def keep_one(place: str, run_id: str) -> None:
    label = SandboxLabel(run_id, AttemptKey(task_id="task 7", index=1), keep=True)

    async def run() -> None:
        provider = HostProcess(HostProcessParameters(**json.loads(place)))
        async with provider.open(Requirements(), label) as env:
            await env.write_file("mine", b"1")

    asyncio.run(run())


def test_nothing_left_is_said_and_is_no_error(cli: Cli, place: str) -> None:
    answer = cli("env", "list", *HOST, "--env-params", place)
    assert (answer.code, answer.out, answer.err) == (0, "nothing is left\n", "")
    answer = cli("env", "clean", *HOST, "--env-params", place)
    assert (answer.code, answer.out, answer.err) == (0, "nothing to remove\n", "")


def test_what_was_kept_is_listed_with_its_age_and_only_removed_when_asked_for(
    cli: Cli, place: str
) -> None:
    keep_one(place, "run-a")
    header, line = cli("env", "list", *HOST, "--env-params", place).out.splitlines()
    assert header.split()[:3] == ["environment", "id", "age"]
    for word in ("host_process", "run-a", "task 7", "run (kept)", " s "):
        assert word in line
    answer = cli("env", "clean", *HOST, "--env-params", place)
    assert answer.out == "nothing to remove\n1 kept on purpose (to remove them: --kept)\n"
    answer = cli("env", "clean", *HOST, "--env-params", place, "--kept")
    assert (answer.code, answer.out) == (0, "removed 1 of 1\n")
    assert cli("env", "list", *HOST, "--env-params", place).out == "nothing is left\n"


def test_environments_are_reached_as_the_configuration_says(
    cli: Cli, home: Path, place: str, tmp_path: Path
) -> None:
    keep_one(place, "run-a")
    file = home / "agentcompass.yaml"
    file.write_text(f"environments: {{host_process: {place}}}", encoding="utf-8")
    assert "run-a" in cli("env", "list", *HOST).out
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = json.dumps({"temp_dir": str(elsewhere)})
    assert cli("env", "list", *HOST, "--env-params", other).out == "nothing is left\n"
    assert cli("env", "clean", *HOST, "--kept").out == "removed 1 of 1\n"


def test_one_sandbox_or_one_runs_sandboxes_can_be_chosen(cli: Cli, place: str) -> None:
    for run_id in ("run-a", "run-a", "run-b"):
        keep_one(place, run_id)
    listed = json.loads(cli("env", "list", *HOST, "--env-params", place, "--json").out)
    assert [row["run_id"] for row in listed["leftovers"]] == ["run-a", "run-a", "run-b"]
    first = listed["leftovers"][0]
    assert first["environment"] == "host_process"
    asked = ("env", "clean", *HOST, "--env-params", place, "--json")
    removed = json.loads(cli(*asked, "--id", first["id"]).out)
    assert [row["id"] for row in removed["removed"]] == [first["id"]]
    removed = json.loads(cli(*asked, "--run", "run-b", "--kept").out)
    assert [row["run_id"] for row in removed["removed"]] == ["run-b"]
    rest = json.loads(cli("env", "list", *HOST, "--env-params", place, "--json").out)
    assert [row["run_id"] for row in rest["leftovers"]] == ["run-a"]


def test_what_is_not_set_up_is_told_in_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MODAL_", "DAYTONA_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("MODAL_CONFIG_PATH", "/nowhere/modal.toml")
    answer = cli("env", "list")
    assert answer.code == 0
    assert answer.err == "not asked: daytona, docker, modal (why: agentcompass env list --env ID)\n"
    assert answer.out.endswith("nothing is left in the others\n")
    why = cli("env", "list", "--env", "daytona")
    assert why.code == 4
    assert "daytona cannot be asked: DAYTONA_API_KEY is not set" in why.err
    document = json.loads(cli("env", "list", "--json").out)
    assert set(document["not_asked"]) == {"daytona", "docker", "modal"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--env", "dcoker"), "environment: no environment named 'dcoker'"),
        (("--env-params", '{"temp_dir": "/x"}'), "env-params: belongs to one environment"),
        ((*HOST, "--env-params", '{"tmp_dir": "/x"}'), "env-params.tmp_dir: unknown key"),
    ],
)
def test_wrong_input_is_one_line(cli: Cli, arguments: tuple[str, ...], complaint: str) -> None:
    answer = cli("env", "list", *arguments)
    assert answer.code == 2
    assert complaint in answer.complaint


def test_an_unknown_sandbox_is_named(cli: Cli, place: str) -> None:
    answer = cli("env", "clean", *HOST, "--env-params", place, "--id", "nope")
    assert answer.code == 4
    assert "no such sandbox: nope" in answer.complaint
