"""What is Docker's own: limits, labels, images of all kinds, what is kept."""

import asyncio
import contextlib
import io
import json
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from docker.errors import NotFound

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements, Resources
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments._docker import owner as _docker_owner
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.environments.docker_engine import (
    IMAGE,
    client,
    containers_of,
    needs_engine,
    wait_until_gone,
)

pytestmark = needs_engine

PLAIN = Requirements(image=IMAGE)


def new_label(task_id: str = "task", *, keep: bool = False) -> SandboxLabel:
    run_id = f"docker_test_{secrets.token_hex(5)}"
    return SandboxLabel(run_id, AttemptKey(task_id=task_id, index=2, physical=3), keep=keep)


@asynccontextmanager
async def sandbox(
    requirements: Requirements = PLAIN, label: SandboxLabel | None = None, **parameters: Any
) -> AsyncIterator[Environment]:
    provider = Docker(DockerParameters(**parameters))
    async with provider.open(requirements, label or new_label()) as env:
        yield env


def limited(**resources: Any) -> Requirements:
    return PLAIN.over(resources=Resources(**resources))


@contextmanager
def built(*lines: str) -> Iterator[str]:
    """An image made from the test image, removed again."""
    tag = f"agentcompass-test-odd:{secrets.token_hex(5)}"
    dockerfile = io.BytesIO("\n".join((f"FROM {IMAGE}", *lines)).encode())
    engine = client()
    engine.images.build(fileobj=dockerfile, tag=tag, rm=True, forcerm=True)
    try:
        yield tag
    finally:
        engine.images.remove(tag, force=True)
        engine.close()


def test_the_memory_limits_victim_is_told_from_an_exit_code() -> None:
    async def run() -> None:
        async with sandbox(limited(memory_mb=64)) as env:
            plain = await env.exec("exit 137")
            assert (plain.exit_code, plain.out_of_memory) == (137, False)
            eaten = await env.exec(["python3", "-c", "x = bytearray(300 << 20)"])
            assert (eaten.exit_code, eaten.out_of_memory) == (137, True)
            late = await env.exec(
                "python3 -c 'x = bytearray(300 << 20)'; sleep 60", timeout_seconds=3
            )
            assert (late.timed_out, late.out_of_memory) == (True, True)
            after = await env.exec("exit 137")
            assert (after.exit_code, after.out_of_memory) == (137, False)

    asyncio.run(run())


def test_limits_are_the_containers() -> None:
    async def run() -> None:
        label = new_label()
        wanted = limited(cpus=0.5, memory_mb=64, pids=100)
        async with sandbox(wanted, label, shm_size_mb=5) as env:
            (found,) = containers_of(label.run_id)
            host = client().api.inspect_container(found["Id"])["HostConfig"]
            assert host["NanoCpus"] == 500_000_000
            assert host["Memory"] == host["MemorySwap"] == 64 << 20  # no swap beyond it
            assert host["PidsLimit"] == 100
            shm = await env.exec("df --output=size -k /dev/shm | tail -1")
            assert shm.stdout.split() == ["5120"]
        async with sandbox(label=label):
            (found,) = containers_of(label.run_id)
            host = client().api.inspect_container(found["Id"])["HostConfig"]
            assert (host["PidsLimit"], host["Memory"]) == (4096, 0)

    asyncio.run(run())


def test_a_fork_bomb_is_ended_with_its_time() -> None:
    async def run() -> None:
        async with sandbox(limited(pids=80)) as env:
            bomb = await env.exec("bomb() { bomb | bomb & }; bomb; sleep 60", timeout_seconds=3)
            assert bomb.timed_out
            count = await env.exec("ls -d /proc/[0-9]* | wc -l")
            assert int(count.stdout) < 20

    asyncio.run(run())


def test_names_and_labels_say_whose_it_is() -> None:
    async def run() -> None:
        label = new_label("汉/../weird task")
        async with sandbox(label=label):
            (found,) = containers_of(label.run_id)
            assert found["Names"][0].startswith("/agentcompass-")
            labels = found["Labels"]
            assert labels["agentcompass.task"] == "汉/../weird task"
            assert labels["agentcompass.attempt"] == "2"
            assert labels["agentcompass.physical"] == "3"
            assert labels["agentcompass.purpose"] == "run"
            assert json.loads(labels["agentcompass.owner"])["pid"] == psutil.Process().pid

    asyncio.run(run())


def test_orphans_are_reaped_and_the_sandbox_outlives_an_agent_that_kills_all() -> None:
    async def run() -> None:
        async with sandbox() as env:
            orphans = await env.exec(
                "for i in 1 2 3 4 5; do (setsid sleep 0.1 &); done; sleep 1; ps -eo stat"
            )
            assert orphans.ok
            assert "Z" not in orphans.stdout
            killed = await env.exec("kill -9 -1", timeout_seconds=60)
            assert killed.exit_code in (137, 0)
            for line in ("pkill -9 sh", "pkill cat", "kill -9 1"):
                await env.exec(line, timeout_seconds=60)
            alive = await env.exec("(setsid sleep 0.1 &); sleep 1; ps -eo stat,args")
            assert alive.ok
            assert "Z" not in alive.stdout.replace("SZ", "")

    asyncio.run(run())


@pytest.mark.parametrize("user", ["daemon", "4321:4321"])
def test_another_users_files_and_processes(user: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x", encoding="utf-8")

    async def run() -> None:
        async with sandbox(PLAIN.over(user=user, workdir="/opt/new/place")) as env:
            await env.write_file("deep/er/one", b"1")
            await env.upload(tmp_path / "folder", "up")
            owners = await env.exec("id -u; stat -c %u . deep deep/er deep/er/one up up/file")
            assert len(set(owners.stdout.split())) == 1, owners.stdout
            late = await env.exec("setsid sleep 1234 & sleep 1234", timeout_seconds=1)
            assert late.timed_out
            assert (await env.exec("pgrep -x sleep")).stdout == ""

    asyncio.run(run())


def test_a_user_the_image_does_not_know_is_named() -> None:
    async def run() -> None:
        async with sandbox() as env:
            with pytest.raises(AgentCompassError, match="nobody-here") as caught:
                await env.exec("true", user="nobody-here")
            assert caught.value.code is Code.ENVIRONMENT_SETUP

    asyncio.run(run())


def test_an_images_own_workdir_user_and_variables_hold_and_its_entrypoint_does_not() -> None:
    lines = (
        "RUN mkdir -p /srv/app && echo x > /srv/app/there && rm /bin/bash",
        "ENV FROM_IMAGE=yes",
        "WORKDIR /srv/app",
        "USER daemon",
        'ENTRYPOINT ["false"]',
        'CMD ["nonsense"]',
        "HEALTHCHECK --interval=1s CMD exit 1",
    )

    async def run() -> None:
        with built(*lines) as image:
            async with sandbox(Requirements(image=image)) as env:
                shown = await env.exec("pwd; ls; id -un; echo $FROM_IMAGE; command -v bash")
                assert shown.stdout.split() == ["/srv/app", "there", "daemon", "yes"]
                assert env.image is not None
                assert "sha256:" in env.image

    asyncio.run(run())


@pytest.mark.parametrize("program", ["sh", "cat"])
def test_an_image_without_the_programs_we_need_says_so_in_one_line(program: str) -> None:
    async def run() -> None:
        label = new_label()
        with built(f"RUN rm -f /bin/{program} /usr/bin/{program}") as image:
            with pytest.raises(AgentCompassError, match=rf"\b{program}\b") as caught:
                async with sandbox(Requirements(image=image), label):
                    pytest.fail("it opened")
            assert caught.value.code is Code.ENVIRONMENT_START
            assert "\n" not in str(caught.value)
            assert wait_until_gone(label.run_id) == []

    asyncio.run(run())


def test_mounts_are_read_only_unless_told(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("x", encoding="utf-8")
    mounts = [
        {"source": str(tmp_path), "target": "/shut"},
        {"source": str(tmp_path), "target": "/open", "writable": True},
    ]

    async def run() -> None:
        async with sandbox(mounts=mounts) as env:
            assert (await env.exec("cat /shut/given")).stdout == "x"
            assert not (await env.exec("touch /shut/new")).ok
            assert (await env.exec("touch /open/new")).ok
        label = new_label()
        missing = [{"source": str(tmp_path / "missing"), "target": "/x"}]
        with pytest.raises(AgentCompassError, match="missing"):
            async with sandbox(label=label, mounts=missing):
                pytest.fail("it opened")
        assert containers_of(label.run_id) == []

    asyncio.run(run())
    assert (tmp_path / "new").exists()
    assert not (tmp_path / "missing").exists()


def test_what_is_no_file_or_too_large_is_not_read() -> None:
    async def run() -> None:
        async with sandbox(shm_size_mb=1) as env:
            await env.exec("mkfifo pipe; truncate -s 10G huge; ln -s /dev/zero zero")
            for path in ("pipe", "zero", "/dev/tty"):
                with pytest.raises(PermissionError):
                    await asyncio.wait_for(env.read_file(path), 60)
            with pytest.raises(ValueError, match="larger"):
                await asyncio.wait_for(env.read_file("huge", max_bytes=1000), 60)
            # A full disk of its own making is no failure of the engine. Content that nobody reads
            # to its end must not hold up the refusal: an engine waits for minutes then.
            big = b"x" * 2_000_000
            with pytest.raises(OSError, match="space"):
                await asyncio.wait_for(env.write_file("/dev/shm/big", big), 30)
            with pytest.raises(IsADirectoryError):
                await asyncio.wait_for(env.write_file("/dev/shm", big), 30)
            with pytest.raises(PermissionError):
                await asyncio.wait_for(env.write_file("/proc/big", big), 30)
            assert (await env.exec("ls -A /dev/shm")).stdout == ""

    asyncio.run(run())


def test_a_kept_sandbox_can_be_entered_and_its_log_says_how(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        label = new_label(keep=True)
        with caplog.at_level(logging.WARNING):
            async with sandbox(label=label) as env:
                await env.write_file("left", b"behind")
                await env.exec("sleep 1234 & true")
        (found,) = containers_of(label.run_id)
        name = found["Names"][0].lstrip("/")
        assert f"docker exec -it -w /workspace {name} sh" in caplog.text
        inside = client().containers.get(name)
        assert inside.exec_run(["cat", "/workspace/left"]).output == b"behind"
        assert b"sleep 1234" not in inside.exec_run(["ps", "-eo", "args"]).output
        provider = Docker(DockerParameters())
        (left,) = [left for left in await provider.leftovers() if left.run_id == label.run_id]
        assert left.kept
        assert await provider.remove_leftover(left)
        assert containers_of(label.run_id) == []

    asyncio.run(run())


def test_leftovers_are_those_of_this_machines_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    label = new_label()
    owner = json.loads(_docker_owner.labels(label)[_docker_owner.OWNER])
    owners = {
        "alive": owner,
        "reused_number": {**owner, "started": owner["started"] - 1000},
        "earlier_boot": {**owner, "boot": "another"},
        "other_machine": {**owner, "machine": "elsewhere", "pid": 2**22},
        "other_user": {**owner, "user": 12345, "pid": 2**22},
    }
    engine = client()
    made = []
    try:
        for name, told in owners.items():
            labels = {
                **_docker_owner.labels(label),
                _docker_owner.OWNER: json.dumps(told),
                "agentcompass.task": name,
            }
            made.append(engine.api.create_container(IMAGE, ["true"], labels=labels)["Id"])

        async def run() -> None:
            provider = Docker(DockerParameters())
            found = [one for one in await provider.leftovers() if one.run_id == label.run_id]
            assert {one.task_id for one in found} == {"reused_number", "earlier_boot"}
            for one in found:
                assert one.created_at is not None
                assert await provider.remove_leftover(one)
                assert await provider.remove_leftover(one)  # gone is removed
            assert len(containers_of(label.run_id)) == 3

        asyncio.run(run())
    finally:
        for container in made:
            with contextlib.suppress(NotFound):
                engine.api.remove_container(container, force=True)
        engine.close()


def test_programs_planted_before_ours_do_not_end_or_blind_the_sandbox() -> None:
    """An agent as root puts its own `sh`, `cat`, … first in the PATH; ours are found anyway."""
    names = "sh bash cat head stat tar find mkdir mv chown"
    each = "printf '#!/bin/false\\n' > /usr/local/sbin/$n"
    plant = f"mkdir -p /usr/local/sbin; for n in {names}; do {each}; done"

    async def run() -> None:
        async with sandbox() as env:
            assert (await env.exec(f"{plant}; chmod +x /usr/local/sbin/*")).ok
            await env.write_file("made", b"1")
            assert await env.read_file("made") == b"1"
            assert [file.path for file in (await env.capture(".")).files] == ["made"]
            assert (await env.exec(["/bin/sh", "-c", "echo still here"])).stdout == "still here\n"
            assert not (await env.exec("echo by bash")).ok  # by the shim: the agent's own business

    asyncio.run(run())


@pytest.mark.parametrize("words", ["y", "f 81a4 3 /workspace/made"])
def test_a_shell_that_never_stops_talking_costs_no_memory_here(words: str) -> None:
    """An agent that replaces the shell can answer our listing without end, or with nonsense."""
    loud = f"#!/usr/bin/python3\nwhile True: print({words!r} * 999)\n"

    async def run() -> None:
        async with sandbox() as env:
            await env.write_file("made", b"1")
            await env.write_file("loud", loud.encode(), mode=0o755)
            assert (await env.exec("cp loud /bin/sh.new && mv /bin/sh.new /bin/dash")).ok
            before = psutil.Process().memory_info().rss
            with pytest.raises((OSError, AgentCompassError, TimeoutError)):
                async with asyncio.timeout(6):  # enough for gigabytes
                    await env.capture(".")
            assert psutil.Process().memory_info().rss - before < 500 * 2**20

    asyncio.run(run())


@pytest.mark.parametrize(
    ("changes", "parameters", "told"),
    [
        ({"user": "nosuch"}, {}, "nosuch"),
        ({"workdir": "/etc/passwd"}, {}, "/etc/passwd"),
        ({}, {"cap_add": ["NOPE"]}, "NOPE"),
        ({}, {"devices": ["/dev/nope"]}, "/dev/nope"),
        ({}, {"mounts": [{"source": "/nope/x", "target": "/x"}]}, "/nope/x"),
    ],
)
def test_what_no_sandbox_could_open_with_is_told_at_preflight(
    changes: dict[str, Any], parameters: dict[str, Any], told: str
) -> None:
    provider = Docker(DockerParameters.model_validate(parameters))
    (line,) = asyncio.run(provider.preflight([PLAIN.over(**changes)] * 3))
    assert told in line
    assert "\n" not in line
