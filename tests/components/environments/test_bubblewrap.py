"""What `isolation: bubblewrap` promises beside the conformance suite."""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import AllowedHosts, Network, Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters
from tests.components.environments.processes import ESCAPED, ESCAPES, Sleeps

REFUSED = "No such file|Permission denied|Read-only|symbolic links|not a regular file"
LABEL = SandboxLabel("walls", AttemptKey(task_id="task", index=1))
pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


def isolated(temp_dir: Path, **parameters: object) -> HostProcess:
    return HostProcess(
        HostProcessParameters.model_validate(
            {"isolation": "bubblewrap", "temp_dir": str(temp_dir), **parameters}
        )
    )


@asynccontextmanager
async def sandbox(temp_dir: Path, **required: object) -> AsyncIterator[Environment]:
    async with isolated(temp_dir).open(Requirements.model_validate(required), LABEL) as env:
        yield env


def inside(
    scenario: Callable[[Environment], Awaitable[None]], temp_dir: Path, **required: object
) -> None:
    async def run() -> None:
        async with sandbox(temp_dir, **required) as env:
            await scenario(env)

    asyncio.run(run())
    assert list(temp_dir.glob("agentcompass-*")) == []


def test_it_promises_what_the_suite_tests() -> None:
    promised = HostProcess(HostProcessParameters(isolation="bubblewrap")).capabilities
    assert promised.isolated
    assert promised.workdir
    assert promised.network == {"none"}
    assert promised.network_phases
    assert promised.model_address
    plain = HostProcess(HostProcessParameters()).capabilities
    assert not plain.isolated
    assert not plain.network


def test_no_secret_of_the_host_is_in_any_process_that_can_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-of-the-host")
    sleeps = Sleeps()
    bystander = subprocess.Popen(["sleep", sleeps.seconds])

    async def scenario(env: Environment) -> None:
        shown = await env.exec("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'")
        assert "sk-of-the-host" not in shown.stdout
        assert sleeps.seconds not in shown.stdout
        assert "AGENTCOMPASS" not in shown.stdout
        for secret in ("environ", "mem", "fd/0", "fd", "root/etc", "cwd/etc", "maps"):
            looked = await env.exec(f"ls -l /proc/1/{secret}; cat /proc/1/{secret}")
            assert not looked.ok, secret
        watched = await env.exec("cat /proc/$PPID/environ /proc/$PPID/mem; ls /proc/$PPID/fd/")
        assert watched.stdout == ""

    try:
        inside(scenario, tmp_path)
    finally:
        bystander.kill()
        bystander.wait()


def test_files_of_the_host_cannot_be_reached(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    ours = Path(__file__)

    async def scenario(env: Environment) -> None:
        places = (secret, ours, "/etc/shadow", "/var/lib", "/var/log", "/sys", "/boot", "/mnt")
        for place in places:
            assert not (await env.exec(["ls", str(place)])).ok, place
        for place in (Path.home() / ".ssh", Path.home() / ".bashrc", Path.home() / ".config"):
            assert not (await env.exec(["ls", str(place)])).ok, place
        assert (await env.exec("ls -A /tmp /home/user /workspace")).stdout.split() == [
            *("/home/user:", "/tmp:", "/workspace:")
        ]
        for place in ("/x", "/usr/x", "/etc/x", "/dev/x", "/run/x", "/run/model/x", "/opt"):
            assert not (await env.exec(["mkdir", place])).ok, place
        for place in ("/tmp/x", "/home/user/x", "/workspace/x", "/dev/shm/x", "/var/tmp/y"):
            assert (await env.exec(["mkdir", place])).ok, place

    inside(scenario, tmp_path)


def test_no_setting_of_the_kernel_can_be_changed(tmp_path: Path) -> None:
    """Root without rights still owns what root owns: so nobody in there is root."""
    line = (
        "find /proc -path '/proc/[0-9]*' -prune -o -type f -writable -print 2>/dev/null "
        # everyone's, and those of the sandbox's own namespaces
        "| grep -v -e /proc/pressure/ -e /ns_last_pid -e /mqueue/ "
        "-E -e '/kernel/(pid_max|(auto_)?(msg|shm|sem)[a-z_]*)$'; "
        "test -w /proc/sys/kernel/core_pattern && echo writable"
    )

    async def scenario(env: Environment) -> None:
        found = await env.exec(line, timeout_seconds=60)
        assert found.stdout == ""
        for rights in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            shown = await env.exec(f"grep {rights} /proc/self/status")
            assert int(shown.stdout.split()[1], 16) == 0, rights
        assert "NoNewPrivs:\t1" in (await env.exec("cat /proc/self/status")).stdout
        assert not (await env.exec("mount -t tmpfs x /tmp || mount --bind / /tmp")).ok

    inside(scenario, tmp_path)


def test_links_lead_nowhere_but_within_the_view(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "secret").write_text("of the host")
    up = "../" * 20

    async def scenario(env: Environment) -> None:
        made = await env.exec(
            f"ln -s {host}/secret file; ln -s {host} folder; ln -s {up}{host} up; "
            "ln -s /etc/shadow shadow; ln -s /proc/self/root root; ln -s /proc/1/root one; "
            "ln -s /etc/passwd users; ln -s /home/user home; echo mine > ~/mine; mkdir out; "
            f"ln -s {host}/secret out/file; ln -s {host} out/folder; ln -s / out/all"
        )
        assert made.ok
        for path in ("file", "folder/secret", "up/secret", "shadow", f"root{host}/secret",
                     f"one{host}/secret", f"{up}{host}/secret", f"/proc/self/root{host}/secret",
                     f"{host}/secret", "/etc/shadow", "/proc/self/environ"):  # fmt: skip
            with pytest.raises(OSError, match=REFUSED):
                await env.read_file(path)
        assert b"/home/user" in await env.read_file("users")
        assert await env.read_file("home/mine") == b"mine\n"
        for path in ("folder/planted", "up/planted", f"root{host}/planted", "/usr/planted"):
            with pytest.raises(OSError, match=REFUSED):
                await env.write_file(path, b"x")
            with pytest.raises(OSError, match=REFUSED):
                await env.upload(host, path)
        await env.write_file("home/made", b"x")
        assert (await env.exec("cat ~/made")).stdout == "x"
        assert (await env.capture("out")).files == ()
        assert (await env.capture("folder")).files == ()
        with pytest.raises(OSError, match=REFUSED):
            await env.capture(str(host))

    inside(scenario, tmp_path)
    assert [path.name for path in host.iterdir()] == ["secret"]


def test_an_agent_cannot_get_rid_of_its_workspace_or_keeper(tmp_path: Path) -> None:
    """So it cannot turn a zero into an attempt that does not count."""
    ways = (
        "kill -9 1; kill -STOP 1; kill -USR2 1; kill -TERM 1; echo ok",
        "cd /; rm -rf /workspace /tmp /home; mv /workspace /tmp/x; ln -s /etc /workspace",
        "(kill -9 -1)",
        "kill -9 $PPID; sleep 100",
        "umount -l /workspace; python3 -c 'import ctypes; ctypes.CDLL(None).umount2(b\"/tmp\", 2)'",
        "chmod 0 /workspace; chmod 0 /tmp",
    )

    async def scenario(env: Environment) -> None:
        for way in ways:
            await env.exec(way, timeout_seconds=20)
            await env.exec("chmod 755 /workspace", cwd="/")
            assert (await env.exec("echo ok; pwd")).stdout == "ok\n/workspace\n", way
            await env.write_file("f", b"x")
            assert await env.read_file("f") == b"x"

    inside(scenario, tmp_path)


def test_a_shortage_of_processes_is_told_and_ends_nothing(tmp_path: Path) -> None:
    """An agent that takes all processes there are has itself to blame, and is scored."""

    async def scenario(env: Environment) -> None:
        assert (await env.exec("true")).ok
        keepers = []
        for child in psutil.Process().children(True):
            with contextlib.suppress(psutil.NoSuchProcess):  # an earlier test's, just ending
                if child.name() == "ac-keeper" and child.ppid() != os.getpid():
                    keepers.append(child)
        keeper = keepers[-1]
        try:
            most = keeper.rlimit(psutil.RLIMIT_NPROC)
        except psutil.AccessDenied:
            pytest.skip("this machine's root may not limit another user's process")
        keeper.rlimit(psutil.RLIMIT_NPROC, (0, most[1]))
        refused = await env.exec("echo ok")
        assert refused.exit_code == 126
        assert refused.stderr.startswith("cannot start: ")
        keeper.rlimit(psutil.RLIMIT_NPROC, most)
        assert (await env.exec("echo ok")).stdout == "ok\n"

    inside(scenario, tmp_path)


def test_only_the_programs_of_a_home_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for place, name in ((".cargo/bin", "one"), (".local/bin", "two"), ("miniconda/bin", "three"),
                        ("bin", "four")):  # fmt: skip
        (home / place).mkdir(parents=True)
        (home / place / name).write_text(f"#!/bin/sh\necho {name}\n")
        (home / place / name).chmod(0o755)
    (home / "miniconda/lib").mkdir()
    (home / "miniconda/lib/part").write_text("needed")
    (home / ".versions/five/bin").mkdir(parents=True)
    (home / ".versions/five/lib").mkdir()
    (home / ".versions/five/bin/five").write_text("#!/bin/sh\necho five\n")
    (home / ".versions/five/bin/five").chmod(0o755)
    (home / ".local/bin/five").symlink_to(home / ".versions/five/bin/five")
    (home / ".local/lib").mkdir()
    (home / ".cargo/lib").mkdir()
    secrets = (".cargo/credentials.toml", ".local/lib/key", ".netrc", ".versions/key", "lib")
    for name in secrets:
        (home / name).write_text("secret")
    folders = (".cargo/bin", ".local/bin", "miniconda/bin", "bin", "", "no/such")
    path = ":".join([*(str(home / folder) for folder in folders), os.environ["PATH"], "", "."])
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", path)

    async def scenario(env: Environment) -> None:
        shown = await env.exec(f"one; two; three; four; five; cat {home}/miniconda/lib/part")
        assert shown.stdout.split() == ["one", "two", "three", "four", "five", "needed"]
        for name in secrets:
            assert not (await env.exec(["cat", str(home / name)])).ok, name

    inside(scenario, tmp_path)


def test_reopened_streams_are_the_commands_own(tmp_path: Path) -> None:
    async def scenario(env: Environment) -> None:
        line = "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin"
        shown = await env.exec(line, stdin=b"in")
        assert (shown.stdout, shown.stderr) == ("out\nin", "err\n")
        merged = await env.exec("echo a >> /dev/stderr; echo b >> /dev/fd/1", merge_stderr=True)
        assert merged.stdout == "a\nb\n"

    inside(scenario, tmp_path)


def test_another_network_ends_what_runs(tmp_path: Path) -> None:
    sleeps = Sleeps()

    async def scenario(env: Environment) -> None:
        await env.exec(ESCAPES.format(sleeps.command) + "true")
        running = asyncio.create_task(env.exec(f"echo x > began; {sleeps.command}"))
        assert await asyncio.to_thread(sleeps.wait, ESCAPED + 1) == ESCAPED + 1
        await env.enter("baseline")
        assert len(sleeps.alive()) == ESCAPED + 1
        await env.enter("run")
        assert sleeps.alive() == []
        assert (await running).exit_code in (-15, -9)
        assert (await env.exec("cat began; grep -c : /proc/net/dev")).stdout == "x\n1\n"
        await env.enter("run")
        for phase in ("evaluation", "run") * 3:
            await env.enter(phase)
            assert (await env.exec("echo ok")).stdout == "ok\n"

    inside(scenario, tmp_path, network={"run": "none"})


def test_policies_and_places_that_cannot_be_had_are_refused_at_once(tmp_path: Path) -> None:
    provider = isolated(tmp_path)
    lists = Network(run=AllowedHosts(allow=("pypi.org",)))
    needs = [
        *(Requirements(workdir=place) for place in ("/usr/src/app", "/", "/proc/x", "/etc")),
        Requirements(network=lists),
        Requirements(workdir="/testbed", network=Network(run="none")),
        Requirements(env={"A=B": "x"}),
    ]
    problems = asyncio.run(provider.preflight(needs))
    assert len(problems) == 6
    assert all("\n" not in problem for problem in problems)
    assert any("/usr/src/app (1 of them)" in problem for problem in problems)
    assert any("public and none only" in problem for problem in problems)

    async def run() -> None:
        for required in needs[:5]:
            with pytest.raises(AgentCompassError) as caught:
                await provider.open(required, LABEL).__aenter__()
            assert caught.value.code is Code.ENVIRONMENT_START

    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["/testbed", "/opt/a b/汉", "/home/user/app", "/tmp/x"])
def test_a_task_may_choose_its_directory(tmp_path: Path, place: str) -> None:
    async def scenario(env: Environment) -> None:
        assert env.workdir == place
        await env.write_file("f", b"x")
        await env.enter("run")
        assert (await env.exec("pwd; cat f; touch mine; rm f")).stdout == f"{place}\nx"
        assert [file.path for file in (await env.capture(place)).files] == ["mine"]

    inside(scenario, tmp_path, workdir=place, network={"run": "none"})


def test_a_directory_that_would_hide_the_programs_is_refused(tmp_path: Path) -> None:
    place = str(tmp_path / "tools")
    (tmp_path / "tools/bin").mkdir(parents=True)

    async def run() -> None:
        with pytest.raises(AgentCompassError, match="programs that commands need") as caught:
            await isolated(tmp_path).open(Requirements(workdir=place), LABEL).__aenter__()
        assert caught.value.code is Code.ENVIRONMENT_START

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{place}/bin:{os.environ['PATH']}")
        asyncio.run(run())
    assert [path.name for path in tmp_path.iterdir()] == ["tools"]


FORBIDDEN = "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"


@pytest.mark.parametrize(
    ("program", "told"),
    [(None, "apt install bubblewrap"), (FORBIDDEN, "use --env docker")],
    ids=["not installed", "forbidden"],
)
def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, told: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    if program is not None:
        (folder / "bwrap").write_text(program)
        (folder / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    (problem,) = asyncio.run(isolated(tmp_path).preflight([Requirements()]))
    assert told in problem
    assert "\n" not in problem
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
