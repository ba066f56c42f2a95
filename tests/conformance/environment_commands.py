"""How commands behave in every provider's sandbox. Needs a POSIX shell and coreutils inside."""

import asyncio
import hashlib
import random
import time

import pytest

from agentcompass.components.contracts.sandbox import Environment
from tests.conformance.sandbox import SandboxScenarios


class CommandConformance(SandboxScenarios):
    def test_exit_code_and_both_streams_come_back_apart(self) -> None:
        async def scenario(env: Environment) -> None:
            result = await env.exec("echo out; echo err >&2; exit 7")
            assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")
            assert not result.timed_out
            assert not result.ok
            assert result.duration_seconds > 0
            assert (await env.exec("true")).ok

        self.inside(scenario)

    def test_an_argv_is_not_read_by_a_shell(self) -> None:
        async def scenario(env: Environment) -> None:
            words = ["a b", "$HOME", "*", "'", '"', "", "é"]
            result = await env.exec(["printf", "%s|", *words])
            assert result.stdout == "".join(f"{word}|" for word in words)

        self.inside(scenario)

    def test_commands_start_in_the_workdir_and_cwd_counts_from_there(self) -> None:
        async def scenario(env: Environment) -> None:
            assert env.workdir.startswith("/")
            assert (await env.exec("pwd")).stdout.strip() == env.workdir
            await env.exec("mkdir -p sub/deep")
            assert (await env.exec("pwd", cwd="sub")).stdout.strip() == f"{env.workdir}/sub"
            absolute = f"{env.workdir}/sub/deep"
            assert (await env.exec(["pwd"], cwd=absolute)).stdout.strip() == absolute

        self.inside(scenario)

    def test_variables_of_a_command_last_as_long_as_the_command(self) -> None:
        async def scenario(env: Environment) -> None:
            shown = await env.exec('echo "$A-$B"', env={"A": "two words", "B": "é$x"})
            assert shown.stdout == "two words-é$x\n"
            assert (await env.exec('echo "$A-$B"')).stdout == "-\n"

        self.inside(scenario)

    def test_variables_of_the_task_are_seen_by_every_command_and_yield_to_its_own(self) -> None:
        async def scenario(env: Environment) -> None:
            assert (await env.exec("echo $FROM_TASK")).stdout == "task\n"
            own = await env.exec(["sh", "-c", "echo $FROM_TASK"], env={"FROM_TASK": "own"})
            assert own.stdout == "own\n"

        self.inside(scenario, env={"FROM_TASK": "task"})

    def test_the_hosts_variables_do_not_leak_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOME_API_KEY", "sk-host-secret")

        async def scenario(env: Environment) -> None:
            assert "sk-host-secret" not in (await env.exec("env")).stdout

        self.inside(scenario)

    def test_stdin_is_empty_unless_given(self) -> None:
        async def scenario(env: Environment) -> None:
            result = await env.exec("cat; read x; echo code $?", timeout_seconds=30)
            assert result.stdout == "code 1\n"

        self.inside(scenario)

    def test_stdin_arrives_byte_for_byte(self) -> None:
        data = random.Random(1).randbytes(1_000_003)

        async def scenario(env: Environment) -> None:
            result = await env.exec("sha256sum; echo $?", stdin=data, timeout_seconds=60)
            assert result.stdout.startswith(hashlib.sha256(data).hexdigest())

        self.inside(scenario)

    def test_stdin_that_nobody_reads_holds_nothing_up(self) -> None:
        async def scenario(env: Environment) -> None:
            result = await env.exec("echo done", stdin=b"x" * 5_000_000, timeout_seconds=60)
            assert (result.exit_code, result.stdout) == (0, "done\n")

        self.inside(scenario)

    def test_a_program_that_cannot_be_started_says_why(self) -> None:
        async def scenario(env: Environment) -> None:
            missing = await env.exec(["no-such-program-here", "x"])
            assert missing.exit_code == 127
            assert missing.stderr
            await env.write_file("plain", b"echo hi\n", mode=0o644)
            refused = await env.exec(["./plain"])
            assert refused.exit_code == 126
            assert refused.stderr
            nowhere = await env.exec("true", cwd="no/such/place")
            assert nowhere.exit_code in (126, 127)
            assert (await env.exec("no-such-program-here")).exit_code == 127

        self.inside(scenario)

    def test_a_killed_command_is_not_one_out_of_time(self) -> None:
        async def scenario(env: Environment) -> None:
            killed = await env.exec("kill -9 $$", timeout_seconds=60)
            assert killed.exit_code in (-9, 137)  # 137: where only the shell's view is known
            assert not killed.timed_out
            for code in (124, 137, 143):
                result = await env.exec(f"exit {code}", timeout_seconds=60)
                assert (result.exit_code, result.timed_out) == (code, False)

        self.inside(scenario)

    def test_a_command_over_its_time_is_stopped_and_says_so(self) -> None:
        async def scenario(env: Environment) -> None:
            started = time.monotonic()
            result = await env.exec("echo early; sleep 100; echo late", timeout_seconds=2)
            assert 2 <= time.monotonic() - started < 2 + self.slack_seconds
            assert (result.exit_code, result.timed_out, result.stdout) == (None, True, "early\n")
            assert (await env.exec("echo ok")).stdout == "ok\n"

        self.inside(scenario)

    def test_a_time_out_ends_what_ignores_term_and_what_left_the_session(self) -> None:
        async def scenario(env: Environment) -> None:
            beat = "while :; do echo x >> {}; sleep 0.1; done"
            await env.write_file("child.sh", f"trap '' TERM\n{beat.format('beat2')}\n".encode())
            line = (
                f"trap '' TERM; ({beat.format('beat1')}) & "
                "setsid sh child.sh >/dev/null 2>&1 & sleep 100"
            )
            result = await env.exec(line, timeout_seconds=2)
            assert result.timed_out
            sizes = "wc -c beat1 beat2"
            before = await env.exec(sizes)
            assert before.ok, before.stderr
            await asyncio.sleep(1)
            assert (await env.exec(sizes)).stdout == before.stdout

        self.inside(scenario)

    def test_a_cancelled_command_is_ended(self) -> None:
        async def scenario(env: Environment) -> None:
            line = "(while :; do echo x >> beat; sleep 0.1; done) & sleep 100"
            running = asyncio.create_task(env.exec(line))
            while (await env.exec("test -s beat")).exit_code != 0:
                await asyncio.sleep(0.05)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await asyncio.sleep(1)
            before = (await env.exec("wc -c beat")).stdout
            await asyncio.sleep(1)
            assert (await env.exec("wc -c beat")).stdout == before

        self.inside(scenario)

    def test_bytes_that_are_not_text_are_replaced_and_the_exit_code_kept(self) -> None:
        async def scenario(env: Environment) -> None:
            line = r"printf '\377\376\200 ok\n'; head -c 4096 /dev/urandom; exit 7"
            result = await env.exec(line)
            assert result.exit_code == 7
            assert result.stdout.startswith("\ufffd\ufffd\ufffd ok\n")
            gbk = await env.exec(r"printf '\304\343\272\303' >&2")
            assert gbk.ok
            assert "\ufffd" in gbk.stderr
            result.stdout.encode()  # no surrogates

        self.inside(scenario)

    def test_characters_are_whole_however_they_arrive(self) -> None:
        text = "a" * 8190 + "汉字かな한" * 600 + "🙂" * 100

        async def scenario(env: Environment) -> None:
            await env.write_file("text", text.encode())
            assert (await env.exec("cat text")).stdout == text
            pieces = r"printf '\346'; sleep 0.2; printf '\261'; sleep 0.2; printf '\211\360\237'"
            result = await env.exec(pieces + r"; sleep 0.2; printf '\231\202'")
            assert result.stdout == "汉🙂"
            slow = await env.exec("dd if=text bs=7 2>/dev/null")
            assert slow.stdout == text

        self.inside(scenario)

    def test_streams_merged_keep_their_order(self) -> None:
        async def scenario(env: Environment) -> None:
            line = "for i in 1 2 3; do echo out$i; echo err$i >&2; done"
            result = await env.exec(line, merge_stderr=True)
            assert result.stdout == "out1\nerr1\nout2\nerr2\nout3\nerr3\n"
            assert result.stderr == ""

        self.inside(scenario)

    def test_a_flood_is_cut_in_the_middle_and_told(self) -> None:
        async def scenario(env: Environment) -> None:
            line = "seq 1 300000; head -c 3000000 /dev/zero | tr '\\0' A >&2; exit 5"
            result = await env.exec(line, output_limit_kb=16)
            assert result.exit_code == 5
            assert result.stdout.startswith("1\n2\n3\n")
            assert result.stdout.endswith("299999\n300000\n")
            for text, dropped in (
                (result.stdout, result.stdout_dropped_bytes),
                (result.stderr, result.stderr_dropped_bytes),
            ):
                assert len(text.encode()) < 16 * 1024 + 100
                assert f"\n[… {dropped} bytes dropped …]\n" in text
            assert 2_900_000 < result.stderr_dropped_bytes < 3_000_000
            small = await env.exec("seq 1 1000", output_limit_kb=16)
            assert (small.stdout_dropped_bytes, small.stdout.count("\n")) == (0, 1000)

        self.inside(scenario)

    def test_a_child_in_the_background_holds_nothing_up_and_lives_on(self) -> None:
        async def scenario(env: Environment) -> None:
            started = time.monotonic()
            # more than a pipe holds: it must neither break nor fill
            line = "(while :; do seq 20000; echo x >> beat; sleep 0.1; done) & echo started"
            result = await env.exec(line, timeout_seconds=60)
            assert time.monotonic() - started < 30
            assert (result.exit_code, result.timed_out) == (0, False)
            assert "started" in result.stdout
            before = (await env.exec("wc -c beat")).stdout
            await asyncio.sleep(1.5)
            assert (await env.exec("wc -c beat")).stdout != before

        self.inside(scenario)

    def test_commands_run_at_the_same_time(self) -> None:
        async def scenario(env: Environment) -> None:
            meet = "touch {0}; until test -e {1}; do sleep 0.1; done; echo {0}"
            pair = [("left", "right"), ("right", "left")]
            results = await asyncio.gather(
                *(env.exec(meet.format(*names), timeout_seconds=60) for names in pair)
            )
            assert [result.stdout for result in results] == ["left\n", "right\n"]

        self.inside(scenario)

    def test_a_shell_line_may_be_long(self) -> None:
        body = "".join(f"line {i} 'quoted' \"$x\"\n" for i in range(9_000))

        async def scenario(env: Environment) -> None:
            line = f"cat > out.txt <<'EOF'\n{body}EOF\nexit 3"
            assert len(line) > 200_000
            assert (await env.exec(line)).exit_code == 3
            assert await env.read_file("out.txt") == body.encode()

        self.inside(scenario)

    def test_no_command_waits_for_a_person(self) -> None:
        async def scenario(env: Environment) -> None:
            assert not (await env.exec("tty", timeout_seconds=30)).ok
            assert not (await env.exec(": < /dev/tty", timeout_seconds=30)).ok
            for line in ("python3", "bash -i", "sudo -k true", "ssh -V", "man ls"):
                result = await env.exec(line, timeout_seconds=30)
                assert not result.timed_out, line
            if (await env.exec("command -v git")).ok:
                await self._git_does_not_wait(env)
            assert (await env.exec("echo ok")).stdout == "ok\n"

        self.inside(scenario)

    async def _git_does_not_wait(self, env: Environment) -> None:
        who = "git config user.email a@b.c && git config user.name a"
        more = "for i in $(seq 60); do echo $i >> f; git add f; git commit -qm c$i; done"
        made = await env.exec(f"git init -q . && {who} && {more}", timeout_seconds=120)
        assert made.ok, made.stderr
        log = await env.exec("git log", timeout_seconds=30)
        assert log.stdout.count("commit ") == 60
        assert (await env.exec("git diff HEAD~50", timeout_seconds=30)).ok
        await env.exec("echo more >> f; git add f")
        for line in ("git commit", "git clone https://127.0.0.1:1/x", "git rebase -i HEAD~2"):
            result = await env.exec(line, timeout_seconds=30)
            assert not result.timed_out, line
