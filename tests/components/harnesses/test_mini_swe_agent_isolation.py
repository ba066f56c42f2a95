"""mini-SWE-agent for real: its own loop and prompts, a scripted model, real commands."""

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.model import ModelReply
from agentcompass.components.execution.log import TrajectoryLog
from agentcompass.components.harnesses.mini_swe_agent import (
    COMPONENT,
    MiniSweAgent,
    MiniSweAgentParameters,
    library,
)
from tests.components.harnesses.fakes import (
    ProcessSandbox,
    ScriptedModel,
    Turn,
    call,
    new_log,
    reply,
    task,
)
from tests.conformance.harness import assert_valid_trajectory

pytest.importorskip("minisweagent")

SUBMIT = call("bash", "s", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


def attempt(
    folder: Path, *turns: Turn, **parameters: object
) -> tuple[Submission, TrajectoryLog, ScriptedModel, ProcessSandbox]:
    model, log, env = ScriptedModel(*turns), new_log("mini_swe_agent"), ProcessSandbox(folder)
    harness = MiniSweAgent(MiniSweAgentParameters.model_validate(parameters))
    submission = asyncio.run(harness.run(task("Fix add.py."), env, model, log))
    assert_valid_trajectory(log.trajectory())
    return submission, log, model, env


def agent_threads() -> list[threading.Thread]:
    """Still there after a moment: a thread that has told its end needs an instant to vanish."""
    for thread in (t for t in threading.enumerate() if t.name == "mini-swe-agent"):
        thread.join(timeout=2)
    return [t for t in threading.enumerate() if t.name == "mini-swe-agent"]


def test_cancelled_in_a_command_it_ends_at_once_and_nothing_runs_on(tmp_path: Path) -> None:
    command = "echo $$ > pid; sleep 300"
    model = ScriptedModel(reply("", call("bash", command=command)), reply("", SUBMIT))
    env = ProcessSandbox(tmp_path)

    async def scenario() -> float:
        harness = MiniSweAgent(MiniSweAgentParameters())
        running = asyncio.create_task(harness.run(task(), env, model, new_log()))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.02)
        started = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return time.monotonic() - started

    assert asyncio.run(scenario()) < 5
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert agent_threads() == []
    assert len(model.requests) == 1


def test_cancelled_in_a_model_call_it_ends_at_once(tmp_path: Path) -> None:
    ended: list[str] = []

    async def scenario() -> None:
        asked = asyncio.Event()

        async def never() -> ModelReply:
            asked.set()
            try:
                await asyncio.sleep(300)
            finally:
                ended.append("model call")
            return reply("")

        harness = MiniSweAgent(MiniSweAgentParameters())
        model = ScriptedModel(never)
        running = asyncio.create_task(
            harness.run(task(), ProcessSandbox(tmp_path), model, new_log())
        )
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ended == ["model call"]
        assert agent_threads() == []

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_call_that_ignores_its_cancellation_cannot_hold_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentcompass.components.harnesses.mini_swe_agent import bridge

    monkeypatch.setattr(bridge, "CLEAN_STOP_SECONDS", 0.2)
    release = threading.Event()

    async def scenario() -> None:
        asked = asyncio.Event()

        async def stubborn() -> ModelReply:
            asked.set()
            while not release.is_set():
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue
            return reply("")

        harness = MiniSweAgent(MiniSweAgentParameters())
        model = ScriptedModel(stubborn)
        running = asyncio.create_task(
            harness.run(task(), ProcessSandbox(tmp_path), model, new_log())
        )
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 20)
        assert agent_threads() == []
        release.set()

    asyncio.run(scenario())


def test_many_attempts_wait_for_the_model_at_the_same_time(tmp_path: Path) -> None:
    count = 64

    async def scenario() -> list[Submission]:
        waiting = 0
        all_waiting = asyncio.Event()

        async def meet() -> ModelReply:
            nonlocal waiting
            waiting += 1
            if waiting == count:
                all_waiting.set()
            await all_waiting.wait()  # never, unless all of them really run at once
            return reply("met", SUBMIT)

        harness = MiniSweAgent(MiniSweAgentParameters())
        runs = [
            harness.run(task(), ProcessSandbox(tmp_path), ScriptedModel(meet), new_log())
            for _ in range(count)
        ]
        return await asyncio.wait_for(asyncio.gather(*runs), 120)

    assert {s.answer for s in asyncio.run(scenario())} == {"met"}


def test_the_system_facts_in_the_prompt_are_the_sandboxs(tmp_path: Path) -> None:
    template = "{{system}}|{{machine}}|{{cwd}}|{{task}}|{{step_limit}}"
    _, _, model, _ = attempt(tmp_path, reply("", SUBMIT), instance_template=template)
    machine = os.uname().machine
    expected = f"Linux|{machine}|{tmp_path}|Fix add.py.|250"
    assert model.requests[0].messages[1].content == expected


def test_a_task_that_looks_like_a_template_is_not_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "zz-canary")
    model, log = ScriptedModel(reply("", SUBMIT)), new_log()
    text = "{{CANARY}} {{ 1 + 1 }} ${CANARY}"
    harness = MiniSweAgent(MiniSweAgentParameters())
    asyncio.run(harness.run(task(text), ProcessSandbox(tmp_path), model, log))
    assert text in model.requests[0].messages[1].content
    assert "zz-canary" not in log.trajectory().model_dump_json()


@pytest.mark.parametrize("template", ["{{CANARY}}", "{{ task", "{% for %}"])
def test_a_template_that_cannot_render_is_refused_before_anything_starts(template: str) -> None:
    with pytest.raises(ValidationError, match="unknown variables CANARY|not a Jinja template"):
        MiniSweAgentParameters(instance_template=template)


def test_the_conversation_stays_out_of_the_debug_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        attempt(tmp_path, reply("a secret plan", SUBMIT))
    assert "secret plan" not in caplog.text


QUIET = """
import os, sys
from agentcompass.components.harnesses import mini_swe_agent
assert not [m for m in sys.modules if m.startswith("minisweagent")], "imported too early"
before = dict(os.environ)
from agentcompass.components.harnesses.mini_swe_agent import library
assert library.load().version
import logging
assert not logging.getLogger("minisweagent").handlers
assert dict(os.environ) == before, set(os.environ) ^ set(before)
assert "litellm" not in sys.modules
"""


def test_its_import_is_silent_and_leaves_home_and_environment_alone(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "mini-swe-agent"
    config.mkdir(parents=True)
    (config / ".env").write_text("STOLEN=zz-canary\n")
    before = sorted(tmp_path.rglob("*"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "MSWEA_"))}
    ran = subprocess.run(
        [sys.executable, "-c", QUIET],
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert sorted(tmp_path.rglob("*")) == before


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_loaded", None)
    for name in [n for n in sys.modules if n.split(".")[0] == "minisweagent"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "minisweagent", None)
    with pytest.raises(RequestError, match=r"pip install 'agentcompass\[mini-swe-agent\]'"):
        library.load()
    assert (COMPONENT.requires, COMPONENT.extra) == (("minisweagent",), "mini-swe-agent")
