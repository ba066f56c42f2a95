"""What Modal is asked for, and what it can do beyond the conformance suite."""

import asyncio
import logging
from pathlib import Path

import pytest
from modal_proto import api_pb2 as api

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Build, Network, Resources
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments.modal import COMPONENT
from tests.components.environments.modal_sandboxes import (
    IMAGE,
    LABEL,
    inside,
    needs_sandboxes,
    nothing,
    only,
    provider,
    standin,
)
from tests.conformance.environment_network import fetched, outside
from tests.standins.modal_server import ModalStandin

__all__ = ["standin"]
pytestmark = needs_sandboxes


def test_the_component_is_created_from_its_parameters() -> None:
    assert COMPONENT.create(COMPONENT.parameters()).capabilities.open_qps == 10
    fields = COMPONENT.parameters.model_fields
    assert all(field.description for field in fields.values())


def test_limits_placement_and_lifetime_are_asked_for(standin: ModalStandin) -> None:
    required = IMAGE.over(resources=Resources(cpus=1.5, memory_mb=512))
    inside(nothing, required, region=("us-east", "eu"), cloud="aws", extras={"verbose": True})
    definition = only(standin).definition
    limits = definition.resources
    assert (limits.milli_cpu, limits.milli_cpu_max) == (1500, 1500)
    assert (limits.memory_mb, limits.memory_mb_max) == (512, 512)
    assert list(definition.scheduler_placement.regions) == ["us-east", "eu"]
    assert (definition.cloud_provider_str, definition.verbose) == ("aws", True)
    assert 1000 < definition.timeout_secs < 24 * 3600
    assert not definition.idle_timeout_secs


@pytest.mark.parametrize("asked", [None, 10**6])
def test_a_lifetime_is_never_more_than_a_day(
    standin: ModalStandin, asked: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    inside(nothing, label=SandboxLabel("r", LABEL.attempt, lifetime_seconds=asked))
    assert only(standin).definition.timeout_secs == 24 * 3600
    assert ("24 hours at most" in caplog.text) is (asked is not None)


def test_a_gpu_is_asked_for_by_kind_and_number(standin: ModalStandin) -> None:
    required = IMAGE.over(resources=Resources(gpus=2))

    async def scenario(env: Environment) -> None:
        assert (await env.exec("echo ok")).stdout == "ok\n"

    inside(scenario, required, gpu="h100")
    gpu = only(standin).definition.resources.gpu_config
    assert (gpu.gpu_type, gpu.count) == ("H100", 2)
    assert not only(standin).alive


def test_tags_tell_whose_it_is(standin: ModalStandin) -> None:
    inside(nothing, app_name="ours")
    sandbox = only(standin)
    told = {name: sandbox.tags[name] for name in ("run", "task", "attempt", "purpose", "kept")}
    assert told == {
        "run": LABEL.run_id,
        "task": LABEL.attempt.task_id,
        "attempt": "1.1",
        "purpose": "run",
        "kept": "no",
    }
    assert int(sandbox.tags["until"]) - int(sandbox.tags["created"]) == (
        sandbox.definition.timeout_secs
    )
    assert "ours" in standin.apps
    assert sandbox.definition.name.startswith("agentcompass-20250102_030405-go__django-12345-")


def test_an_image_is_recorded_and_its_entry_point_left_out(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        assert env.image == only(standin).definition.image_id
        lines = list(standin.images[env.image or ""].dockerfile_commands)
        assert lines[-1] == "ENTRYPOINT []"

    inside(scenario)
    assert any(
        "FROM debian:stable-slim" in image.dockerfile_commands for image in standin.images.values()
    )


def test_an_image_is_built_from_a_dockerfile_once(standin: ModalStandin, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM debian\nCOPY data /data\n")
    (context / "data").write_text("x")
    required = IMAGE.over(image=None, build=Build(context=str(context)))
    inside(nothing, required)
    built = dict(standin.images)
    assert any("COPY data /data" in image.dockerfile_commands for image in built.values())
    inside(nothing, required)
    assert standin.images.keys() == built.keys()


def test_an_image_that_cannot_be_made_is_named(standin: ModalStandin) -> None:
    with pytest.raises(AgentCompassError, match="no-such-image:7 cannot be made") as caught:
        inside(nothing, IMAGE.over(image="no-such-image:7"))
    assert caught.value.code is Code.ENVIRONMENT_START
    assert not standin.sandboxes


def test_an_allow_list_reaches_what_it_names_and_nothing_else(standin: ModalStandin) -> None:
    standin.names = {"allowed.test": standin.outside.address, "other.test": "127.0.0.1"}
    network = Network.model_validate(
        {"baseline": "none", "run": {"allow": ["allowed.test", "192.0.2.7"]}}
    )
    with outside() as port:

        async def scenario(env: Environment) -> None:
            assert await fetched(env, f"http://allowed.test:{port}/") == ""
            await env.enter("run")
            assert await fetched(env, f"http://allowed.test:{port}/") != ""
            gateway = await env.exec("ip -4 -o addr show wire")
            near = str(gateway.stdout.split()[3]).partition("/")[0]
            number = int(near.rpartition(".")[2]) - 1
            assert await fetched(env, f"http://{near.rpartition('.')[0]}.{number}:{port}/") == ""
            await env.enter("evaluation")
            assert await fetched(env, f"http://allowed.test:{port}/") == ""

        inside(scenario, IMAGE.over(network=network))
    assert not only(standin).definition.block_network


def test_no_network_in_any_phase_is_blocked_by_modal_itself(standin: ModalStandin) -> None:
    inside(nothing, IMAGE.over(network=Network(baseline="none")))
    access = only(standin).definition.network_access
    assert access.network_access_type == api.NetworkAccess.BLOCKED


def test_a_public_model_endpoint_is_let_through(standin: ModalStandin) -> None:
    # a test address of the documentation would count as private
    public = "8.8.8.8"

    async def scenario(env: Environment) -> None:
        await env.enter("run")
        assert await env.model_address(f"https://{public}/v1") == f"https://{public}/v1"
        routes = await env.exec("cat /proc/net/route")
        assert "08080808" in routes.stdout

    inside(scenario, IMAGE.over(network=Network(baseline="none")))


def test_a_model_endpoint_that_no_list_can_let_through_is_refused(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        assert await env.model_address("https://models.test/v1") == "https://models.test/v1"
        for url in ("http://models.test/v1", "https://models.test:8443/v1"):
            with pytest.raises(AgentCompassError, match="port 443 only") as caught:
                await env.model_address(url)
            assert caught.value.code is Code.ENVIRONMENT_SETUP

    inside(scenario, IMAGE.over(network=Network(run="none")))


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "10.1.2.3", "[::1]:80", "box"])
def test_a_model_endpoint_of_this_machine_is_refused(standin: ModalStandin, host: str) -> None:
    async def scenario(env: Environment) -> None:
        with pytest.raises(AgentCompassError, match="public address") as caught:
            await env.model_address(f"http://{host}/v1")
        assert caught.value.code is Code.ENVIRONMENT_SETUP

    inside(scenario)


def test_commands_and_files_are_the_tasks_users(standin: ModalStandin, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/inner").write_text("x")

    async def scenario(env: Environment) -> None:
        assert (await env.exec("id -un; echo $HOME $USER")).stdout == ("daemon\n/usr/sbin daemon\n")
        assert (await env.exec("id -un", user="root")).stdout == "root\n"
        assert (await env.exec("id -u", user="4711")).stdout == "4711\n"
        await env.write_file("new/own", b"x", mode=0o600)
        await env.upload(tmp_path / "folder", "copied")
        shown = await env.exec("stat -c %U . new new/own copied copied/inner; echo y > made")
        assert shown.ok
        assert set(shown.stdout.split()) == {"daemon"}
        long = await env.exec("id -un # " + "x" * 300_000)
        assert long.stdout == "daemon\n"
        with pytest.raises(AgentCompassError, match="nobody-here"):
            await env.exec("true", user="nobody-here")

    inside(scenario, IMAGE.over(user="daemon", workdir="/srv/task"))


def test_a_command_that_kills_what_launched_it_holds_nothing_up(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        line = "(while :; do echo beat; sleep 0.1; done) & echo out; kill -9 $PPID; sleep 100"
        result = await env.exec(line)
        assert result.exit_code == 137
        assert result.stdout.startswith(("out\n", "beat\n"))
        assert (await env.exec("echo ok")).stdout == "ok\n"

    inside(scenario)


def test_preflight_names_all_problems_at_once(standin: ModalStandin) -> None:
    hosts = ["a.test:8080", "b.test:443"]
    required = [
        IMAGE.over(image=None),
        IMAGE.over(platform="linux/arm64"),
        IMAGE.over(network=Network.model_validate({"baseline": {"deny": ["a.test"]}})),
        IMAGE.over(network=Network.model_validate({"run": {"allow": hosts}})),
        IMAGE.over(image=None, build=Build(context="/no/such")),
    ]
    problems = asyncio.run(provider(extras={"colour": 1}).preflight(required))
    wanted = ("no image", "linux/arm64", "deny-list", "a.test:8080", "/no/such", "colour")
    for word in wanted:
        assert sum(word in problem for problem in problems) == 1, word
    assert len(problems) == len(wanted)


def test_preflight_says_when_the_credentials_are_missing_or_refused(
    standin: ModalStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODAL_TOKEN_ID", "ak-of-nobody")
    (problem,) = asyncio.run(provider().preflight([IMAGE]))
    assert "modal token new" in problem
    monkeypatch.delenv("MODAL_TOKEN_ID")
    (problem,) = asyncio.run(provider().preflight([IMAGE]))
    assert "no credentials" in problem


def test_a_kept_sandbox_stays_and_is_told_how_to_enter(
    standin: ModalStandin, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        inside(nothing, label=SandboxLabel("r", LABEL.attempt, keep=True))
    sandbox = only(standin)
    assert sandbox.alive
    assert f"modal shell {sandbox.id}" in caplog.text
