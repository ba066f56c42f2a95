import asyncio
import os
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments.host_process import (
    COMPONENT,
    HostProcess,
    HostProcessParameters,
)

LABEL = SandboxLabel("20250102_030405", AttemptKey(task_id="django__django-12345", index=1))
COMMON_NAMES = {
    *("PATH", "HOME", "TMPDIR", "SHELL", "USER", "LOGNAME", "PWD", "SHLVL", "_"),
    *("LANG", "LC_ALL", "TERM", "PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"),
    *("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_TERMINAL_PROMPT", "GIT_ASKPASS", "SSH_ASKPASS"),
    *("GIT_CEILING_DIRECTORIES", "DEBIAN_FRONTEND", "AGENTCOMPASS_SANDBOX"),
}


def inside(
    scenario: Callable[[Environment], Awaitable[None]],
    temp_dir: Path,
    required: Requirements | None = None,
    **parameters: object,
) -> None:
    async def run() -> None:
        provider = HostProcess(
            HostProcessParameters.model_validate({"temp_dir": str(temp_dir), **parameters})
        )
        async with provider.open(required or Requirements(), LABEL) as env:
            await scenario(env)

    asyncio.run(run())


def test_the_component_is_created_from_its_parameters() -> None:
    provider = COMPONENT.create(COMPONENT.parameters())
    assert provider.capabilities.isolated is False
    assert COMPONENT.parameters.model_fields["inherit_env"].description


def test_a_workspace_is_private_readable_and_gone_afterwards(tmp_path: Path) -> None:
    async def scenario(env: Environment) -> None:
        (root,) = tmp_path.iterdir()
        assert root.name.startswith("agentcompass-20250102_030405-go__django-12345-")
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        assert env.workdir == f"{root}/work"
        shown = await env.exec('cd; pwd; echo "$TMPDIR"; mktemp')
        home, tmp, made = shown.stdout.split()
        assert (home, tmp) == (f"{root}/home", f"{root}/tmp")
        assert made.startswith(tmp)

    inside(scenario, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_ids_never_become_paths(tmp_path: Path) -> None:
    async def run() -> None:
        provider = HostProcess(HostProcessParameters(temp_dir=str(tmp_path)))
        for odd in ("../../x", "a" * 999, "", "/", "\0\n ", "汉字", "\ud800"):
            label = SandboxLabel(odd, AttemptKey(task_id=odd, index=1))
            async with provider.open(Requirements(), label):
                (root,) = tmp_path.iterdir()
                assert len(root.name) <= 60

    asyncio.run(run())


def test_no_tree_is_too_awkward_to_remove(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "kept").write_text("kept")
    workspaces = tmp_path / "workspaces"
    workspaces.mkdir()

    async def scenario(env: Environment) -> None:
        made = await env.exec(
            f"ln -s {outside} link; mkdir -p shut/in/side; touch shut/in/file; "
            "chmod 0 shut/in/side; chmod 500 shut/in; chmod 0 shut; chmod 500 .; cd ../tmp; "
            r"touch $(printf 'caf\351'); mkfifo pipe; mkdir $(printf 'd\377'); "
        )
        assert made.ok, made.stderr
        deep = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
        assert (await env.exec([sys.executable, "-c", deep], cwd="../tmp")).ok

    inside(scenario, workspaces)
    assert list(workspaces.iterdir()) == []
    assert (outside / "kept").read_text() == "kept"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755


@pytest.mark.skipif(os.getuid() != 0, reason="mounting needs root")
def test_what_is_mounted_into_a_workspace_is_not_emptied(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "kept").write_text("kept")
    workspaces = tmp_path / "workspaces"
    workspaces.mkdir()
    mounts: list[str] = []

    async def scenario(env: Environment) -> None:
        mounted = await env.exec(f"mkdir -p a/m && mount --bind {outside} a/m")
        if not mounted.ok:
            pytest.skip("this machine does not let root mount")
        mounts.append(env.workdir)

    try:
        inside(scenario, workspaces)
        assert (outside / "kept").read_text() == "kept"
        assert stat.S_IMODE(outside.stat().st_mode) == 0o755
    finally:
        lines = Path("/proc/self/mounts").read_text().splitlines()
        for line in lines:
            if str(workspaces) in (place := line.split()[1]):
                os.system(f"umount {place}")


def test_commands_see_no_host_variables_but_those_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOST_SECRET", "PROXY_URL", "TOKEN", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, f"value of {name}")
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")

    async def scenario(env: Environment) -> None:
        lines = (await env.exec("env")).stdout.splitlines()
        names = {line.partition("=")[0] for line in lines}
        assert names == COMMON_NAMES | {"PROXY_URL", "MY_TOKEN"}
        assert "PROXY_URL=value of PROXY_URL" in lines
        assert "MY_TOKEN=value of TOKEN" in lines
        assert "TERM=dumb" in lines
        # nor can they be read from the processes above a command
        above = await env.exec("cat /proc/$PPID/environ | tr '\\0' '\\n'")
        assert "HOST_SECRET" not in above.stdout

    required = Requirements(env={"MY_TOKEN": "${TOKEN}"})
    inside(scenario, tmp_path, required, inherit_env=["PROXY_URL"])


def test_our_own_virtual_environment_is_not_on_a_commands_path(tmp_path: Path) -> None:
    async def scenario(env: Environment) -> None:
        path = (await env.exec('echo "$PATH"')).stdout.strip().split(":")
        ours = Path(sys.prefix, "bin").resolve()
        assert ours not in [Path(part).resolve() for part in path]

    if sys.prefix == sys.base_prefix:
        pytest.skip("not in a virtual environment")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{sys.prefix}/bin:{os.environ['PATH']}")
        inside(scenario, tmp_path)


def test_an_unset_variable_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    with pytest.raises(RequestError, match=r"env-params\.inherit_env: variable NOT_SET_ANYWHERE"):
        HostProcess(HostProcessParameters(inherit_env=("NOT_SET_ANYWHERE",)))


def test_preflight_names_every_reason_at_once(tmp_path: Path) -> None:
    place = tmp_path / "a file"
    place.write_text("")
    provider = HostProcess(HostProcessParameters(temp_dir=str(place)))
    needs = [
        *[Requirements(workdir="/app", image="x")] * 3,
        Requirements(workdir="/testbed"),
        Requirements(env={"A=B": "x"}),
    ]
    problems = asyncio.run(provider.preflight(iter(needs)))
    assert len(problems) == 4
    assert "/app (3 of them)" in problems[0]
    assert "--env docker" in problems[0]
    assert "/testbed (1 of them)" in problems[1]
    assert "A=B" in problems[2]
    assert str(place) in problems[3]
    assert all("\n" not in problem for problem in problems)


def test_an_image_is_ignored(tmp_path: Path) -> None:
    provider = HostProcess(HostProcessParameters(temp_dir=str(tmp_path)))
    assert asyncio.run(provider.preflight([Requirements(image="debian:12")])) == []


def test_a_workspace_that_cannot_be_made_is_a_failed_start(tmp_path: Path) -> None:
    async def run() -> None:
        provider = HostProcess(HostProcessParameters(temp_dir=str(tmp_path / "missing")))
        with pytest.raises(AgentCompassError, match="No such file") as caught:
            await provider.open(Requirements(), LABEL).__aenter__()
        assert caught.value.code is Code.ENVIRONMENT_START
        asking = HostProcess(HostProcessParameters(temp_dir=str(tmp_path)))
        with pytest.raises(AgentCompassError, match="/app"):
            await asking.open(Requirements(workdir="/app"), LABEL).__aenter__()

    asyncio.run(run())


def test_a_workspace_that_a_command_destroys_is_gone_and_the_sandbox_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Were it a failure of the environment, an agent could choose not to be scored."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("of the host")
    workspaces = tmp_path / "workspaces"
    workspaces.mkdir()
    ways = (
        'cd /; rm -rf "$(dirname $TMPDIR)"',
        'cd /; mv "$(dirname $TMPDIR)" "$(dirname $TMPDIR)-moved"',
        f"cd ..; rm -rf work; ln -s {outside} work",
        "cd ..; rm -rf work; echo x > work",
        "cd ..; rm -rf work; mkfifo work",
        "cd ..; rm -rf work",
        "cd ..; rm -rf tmp; chmod 0 work",
        f"d=$(dirname $TMPDIR); cd /; rm -rf $d; ln -s {outside} $d",
    )

    async def scenario(env: Environment) -> None:
        for way in ways:
            await env.write_file("mine", b"x")
            await env.exec(way)
            if "chmod" not in way:
                there = await env.exec(["test", "-d", env.workdir], cwd="/")
                assert there.exit_code == 1, way
                assert (await env.exec("true")).exit_code in (126, 127)
                with pytest.raises(FileNotFoundError):
                    await env.capture(".")
            with pytest.raises(FileNotFoundError):
                await env.read_file("secret")
            await env.write_file("answer", b"42")
            assert (await env.exec("cat answer; rm answer")).stdout == "42"

    inside(scenario, workspaces)
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert "destroyed its own workspace" in caplog.text
    assert [p.name for p in workspaces.iterdir() if not p.name.endswith("-moved")] == []


SHORT_OF_HANDLES = """
import asyncio, os, resource, sys
from pathlib import Path
from agentcompass.components.contracts.errors import AgentCompassError, Code
from tests.components.environments.test_host_process import inside

async def scenario(env):
    await env.write_file("f", b"x")
    await env.exec("true", stdin=b"x")
    for spare in range(9):
        taken = []
        used = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, 4096))
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            for descriptor in taken[:spare]:
                os.close(descriptor)
        for use in (lambda: env.exec("echo ok", stdin=b"x"), lambda: env.read_file("f"),
                    lambda: env.write_file("f", b"x"), lambda: env.capture(".")):
            try:
                done = await use()
                assert getattr(done, "exit_code", 0) == 0, done
                assert not getattr(done, "left_out", ()), done
            except AgentCompassError as error:
                assert error.code is Code.ENVIRONMENT_LOST, error
                assert "ulimit" in str(error), error
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
        for descriptor in taken[spare:]:
            os.close(descriptor)
    assert (await env.exec("echo ok")).ok

inside(scenario, Path(sys.argv[1]))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_shortage_of_handles_is_the_environments_failure_and_no_commands(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_HANDLES, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_user_that_runs_us_may_be_named(tmp_path: Path) -> None:
    async def scenario(env: Environment) -> None:
        name = (await env.exec("id -un")).stdout.strip()
        assert (await env.exec("true", user=name)).ok
        with pytest.raises(AgentCompassError, match="someone-else") as caught:
            await env.exec("true", user="someone-else")
        assert caught.value.code is Code.ENVIRONMENT_SETUP

    inside(scenario, tmp_path)


def test_commands_no_kernel_would_start_are_exit_codes(tmp_path: Path) -> None:
    async def scenario(env: Environment) -> None:
        assert (await env.exec("echo a\0b")).exit_code == 126
        assert (await env.exec([])).exit_code == 127
        assert (await env.exec("true", env={"A=B": "x"})).exit_code == 126
        assert (await env.exec(["printf", "%s", "x" * 300_000])).exit_code == 126
        assert (await env.exec("printf '\udcff' | wc -c")).stdout.strip() == "1"
        assert (await env.exec("echo '\ud800'")).ok

    inside(scenario, tmp_path)


def test_signals_and_masks_of_commands_are_untouched(tmp_path: Path) -> None:
    async def scenario(env: Environment) -> None:
        shown = await env.exec(["grep", "-E", "^(SigBlk|SigIgn)", "/proc/self/status"])
        masks = [int(line.split()[1], 16) for line in shown.stdout.splitlines()]
        ours = ~(1 << 31 | 1 << 32)  # signals 32 and 33 are the C library's own
        assert [mask & ours for mask in masks] == [0, 0]
        opened = await env.exec(["ls", "/proc/self/fd"])
        assert opened.stdout.split() == ["0", "1", "2", "3"]  # 3: the listing itself

    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    inside(scenario, tmp_path)


def test_writing_over_a_directory_is_refused(tmp_path: Path) -> None:
    async def scenario(env: Environment) -> None:
        await env.exec("mkdir d; touch d/x; mkfifo pipe")
        with pytest.raises(IsADirectoryError):
            await env.write_file("d", b"x")
        with pytest.raises(PermissionError, match="not a regular file"):
            await env.read_file("pipe")
        await env.write_file("pipe", b"now a file")
        assert await env.read_file("pipe") == b"now a file"
        with pytest.raises(FileNotFoundError):
            await env.read_file("a\0b")
        assert (await env.exec("ls -A")).stdout.split() == ["d", "pipe"]

    inside(scenario, tmp_path)


def test_a_sandbox_is_kept_on_request_and_its_processes_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        provider = HostProcess(HostProcessParameters(temp_dir=str(tmp_path)))
        label = SandboxLabel("run", AttemptKey(task_id="t", index=1), keep=True)
        async with provider.open(Requirements(), label) as env:
            await env.exec("echo left > behind; setsid sleep 313 & disown")

    asyncio.run(run())
    (kept,) = tmp_path.iterdir()
    assert (kept / "work/behind").read_text() == "left\n"
    assert f"cd {kept}/work" in caplog.text
    provider = HostProcess(HostProcessParameters(temp_dir=str(tmp_path)))
    (leftover,) = asyncio.run(provider.leftovers())
    assert (leftover.id, leftover.kept, leftover.purpose) == (str(kept), True, "run")
    assert f"process {os.getpid()} on " in leftover.owner
    assert leftover.created_at is not None
    assert abs(leftover.created_at.timestamp() - time.time()) < 600
    assert asyncio.run(provider.remove_leftover(leftover))
    assert list(tmp_path.iterdir()) == []
    running = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert ["sleep", "313"] not in running
