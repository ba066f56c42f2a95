"""Much at once: output, commands, odd values, memory."""

import asyncio
import time

from agentcompass.components.contracts.requirements import Resources
from agentcompass.components.contracts.sandbox import Environment
from tests.conformance.sandbox import SandboxScenarios

_FLOOD_BYTES = 20_000_000


class PressureConformance(SandboxScenarios):
    def test_floods_on_both_streams_do_not_hold_each_other_up(self) -> None:
        line = (
            f"(head -c {_FLOOD_BYTES} /dev/zero | tr '\\0' A) & "
            f"(head -c {_FLOOD_BYTES} /dev/zero | tr '\\0' B >&2) & wait; exit 3"
        )

        async def scenario(env: Environment) -> None:
            result = await env.exec(line, timeout_seconds=120)
            assert (result.exit_code, result.timed_out) == (3, False)
            for text, dropped, letter in (
                (result.stdout, result.stdout_dropped_bytes, "A"),
                (result.stderr, result.stderr_dropped_bytes, "B"),
            ):
                assert text.count(letter) + dropped == _FLOOD_BYTES
                assert len(text) < 1_000_000

        self.inside(scenario)

    def test_time_is_up_in_a_flood_as_well(self) -> None:
        async def scenario(env: Environment) -> None:
            started = time.monotonic()
            line = "yes out & yes err >&2"
            result = await env.exec(line, timeout_seconds=2)
            assert time.monotonic() - started < 2 + self.slack_seconds
            assert (result.exit_code, result.timed_out) == (None, True)
            assert result.stdout.startswith("out\nout\n")
            assert result.stdout_dropped_bytes > 0
            again = await env.exec("echo ok", timeout_seconds=60)
            assert (again.exit_code, again.stdout) == (0, "ok\n")

        self.inside(scenario)

    def test_twenty_commands_run_at_once_and_keep_their_output_apart(self) -> None:
        async def scenario(env: Environment) -> None:
            # all are there before one may end
            line = (
                "touch here.{0}; until [ $(ls here.* | wc -l) -ge 20 ]; do sleep 0.3; done; "
                "echo out {0}; echo err {0} >&2; exit {0}"
            )
            results = await asyncio.gather(
                *(env.exec(line.format(number), timeout_seconds=120) for number in range(20))
            )
            for number, result in enumerate(results):
                told = (result.exit_code, result.stdout, result.stderr)
                assert told == (number, f"out {number}\n", f"err {number}\n")

        self.inside(scenario)

    def test_values_of_variables_are_taken_as_they_are(self) -> None:
        values = {
            "LINES_": "one\ntwo\n\nfour",
            "QUOTES": 'it\'s "quoted" `x` $(y) ${z} \\ \\n',
            "EMPTY": "",
            "EQUALS": "a=b=c",
            "SPACES": "  two  spaces \t tab ",
            "LETTERS": "é汉字🙂",
            "_lower_9": "%s %d %%",
        }

        async def scenario(env: Environment) -> None:
            for name, value in values.items():
                line = f'printf "%s|" "${{{name}-unset}}"'
                for given in ({"env": values}, {}):
                    shown = await env.exec(line.replace(name, f"OF_TASK_{name}"))
                    assert shown.stdout == f"{value}|"
                    own = await env.exec(line, **given)  # type: ignore[arg-type]
                    assert own.stdout == (f"{value}|" if given else "unset|")

        self.inside(scenario, env={f"OF_TASK_{name}": value for name, value in values.items()})

    def test_words_of_a_command_may_hold_anything_but_nul(self) -> None:
        words = [
            "é",
            "汉字",
            "🙂",
            "\u202ertl",
            "a\nb\n",
            "\t",
            "\\",
            "--",
            "-n",
            "",
            " ",
            "\x01\x7f",
        ]

        async def scenario(env: Environment) -> None:
            shown = await env.exec(["printf", "[%s]", *words])
            assert shown.stdout == "".join(f"[{word}]" for word in words)
            many = [str(number) for number in range(3000)]
            assert (await env.exec(["sh", "-c", "echo $#", "sh", *many])).stdout == "3000\n"
            long = "x" * 100_000
            assert (await env.exec(["sh", "-c", "echo ${#1}", "sh", long])).stdout == "100000\n"

        self.inside(scenario)

    def test_a_command_hears_signals_and_its_end_by_one_is_told(self) -> None:
        async def scenario(env: Environment) -> None:
            for number in (1, 2, 6, 11, 15):
                ended = await env.exec(f"kill -{number} $$; sleep 5", timeout_seconds=60)
                assert ended.exit_code in (-number, 128 + number)
                assert not ended.timed_out
            line = "trap 'echo cleaned; exit 5' TERM; echo $$ > pid; while :; do sleep 0.1; done"
            waiting = asyncio.create_task(env.exec(line, timeout_seconds=60))
            while not (await env.exec("test -s pid")).ok:
                await asyncio.sleep(0.1)
            assert (await env.exec("kill -TERM $(cat pid)")).ok  # commands see each other
            ended = await waiting
            assert (ended.exit_code, ended.stdout) == (5, "cleaned\n")

        self.inside(scenario)

    def test_orphans_are_reaped(self) -> None:
        async def scenario(env: Environment) -> None:
            line = "for i in 1 2 3 4 5 6 7 8; do (sh -c 'echo $$ >> pids; exec sleep 0.2' &); done"
            await env.exec(line)
            left = "for p in $(cat pids); do test -e /proc/$p && echo $p; done; wc -l < pids"
            for _ in range(50):
                await asyncio.sleep(0.2)
                shown = await env.exec(left)
                if shown.stdout.split() == ["8"]:
                    break
            assert shown.stdout.split() == ["8"]

        self.inside(scenario)

    def test_memory_over_the_limit_is_told_from_a_kill(self) -> None:
        self.needs("memory_mb" in self.provider().capabilities.resources, "a memory limit")

        async def scenario(env: Environment) -> None:
            assert not (await env.exec("exit 137")).out_of_memory
            assert not (await env.exec("kill -9 $$")).out_of_memory
            over = (self.memory_mb + 16) * 1024 * 1024
            # no end of line: `tail` has to hold it all, and twice the limit leaves no doubt
            hungry = f"head -c {2 * over} /dev/zero | tail"
            result = await env.exec(f"{hungry} > /dev/null; exit 9", timeout_seconds=120)
            assert result.out_of_memory
            after = await env.exec("echo ok", timeout_seconds=60)
            assert (after.stdout, after.out_of_memory) == ("ok\n", False)

        limits = self.requirements.resources.model_copy(update={"memory_mb": self.memory_mb})
        self.inside(scenario, resources=Resources.model_validate(limits.model_dump()))

    def test_no_exit_code_alone_means_out_of_memory(self) -> None:
        async def scenario(env: Environment) -> None:
            for line in ("exit 137", "kill -9 $$", "sh -c 'kill -9 $$'; exit 137"):
                assert not (await env.exec(line)).out_of_memory

        self.inside(scenario)
