"""mini-SWE-agent for real: its own loop and prompts, a scripted model, real commands."""

import asyncio
import subprocess
import threading
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import ModelReply
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.execution.log import TrajectoryLog
from agentcompass.components.harnesses.mini_swe_agent import (
    COMPONENT,
    MiniSweAgent,
    MiniSweAgentParameters,
    library,
)
from tests.components.harnesses.fakes import (
    UNPRICED_CALL,
    ProcessSandbox,
    ScriptedModel,
    Turn,
    broken_call,
    call,
    new_log,
    reply,
    task,
)
from tests.conformance import harness as conformance
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


def test_it_does_what_every_harness_must(tmp_path: Path) -> None:
    conformance.assert_well_declared(COMPONENT)
    harness, env = MiniSweAgent(MiniSweAgentParameters()), ProcessSandbox(tmp_path)
    conformance.assert_model_errors_rise(harness, env)
    conformance.assert_full_context_is_graded(harness, env)
    conformance.assert_ends_when_cancelled(harness, env)
    conformance.assert_reasoning_is_no_answer(
        harness, env, lambda: (reply("", SUBMIT, reasoning="SECRET"),)
    )


def agent_threads() -> list[threading.Thread]:
    """Still there after a moment: a thread that has told its end needs an instant to vanish."""
    for thread in (t for t in threading.enumerate() if t.name == "mini-swe-agent"):
        thread.join(timeout=2)
    return [t for t in threading.enumerate() if t.name == "mini-swe-agent"]


def test_it_fixes_a_file_with_real_commands_and_submits(tmp_path: Path) -> None:
    (tmp_path / "add.py").write_text("def add(a, b):\n    return a - b\n")
    submission, log, model, _ = attempt(
        tmp_path,
        reply("Look first.", call("bash", command="cat add.py"), reasoning="hm, a minus"),
        reply("Fix.", call("bash", command="sed -i 's/a - b/a + b/' add.py")),
        reply("Done: it adds.", SUBMIT),
    )
    assert (tmp_path / "add.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert submission == Submission(answer="Done: it adds.")
    assert log.notes == []
    assert "return a - b" in model.requests[1].messages[-1].content
    assert "Fix add.py." in model.requests[0].messages[1].content


def test_what_is_printed_after_the_marker_is_the_answer(tmp_path: Path) -> None:
    command = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo 42"
    submission, *_ = attempt(tmp_path, reply("The answer.", call("bash", command=command)))
    assert submission.answer == "42\n"


def test_a_wrong_fix_is_submitted_as_it_stands(tmp_path: Path) -> None:
    submission, log, *_ = attempt(
        tmp_path, reply("", call("bash", command="echo wrong > out; false")), reply("", SUBMIT)
    )
    assert submission == Submission(answer=None)
    assert (tmp_path / "out").read_text() == "wrong\n"
    assert '"returncode": 1' in str(log.steps[2].observation)


def test_the_reply_goes_back_unchanged_and_the_tool_is_the_librarys(tmp_path: Path) -> None:
    fields = {"thinking_blocks": [{"signature": "abc"}]}
    first = reply("a", call("bash", command="true"), reasoning="r", provider_fields=fields)
    _, _, model, _ = attempt(tmp_path, first, reply("", SUBMIT))
    assert model.requests[1].messages[2] == first.message
    assert [tool.name for tool in model.requests[0].tools] == ["bash"]


def test_several_commands_of_one_reply_run_in_order(tmp_path: Path) -> None:
    _, log, model, _ = attempt(
        tmp_path,
        reply(
            "",
            call("bash", "1", command="echo a >> f"),
            call("bash", "2", command="echo b >> f; cat f"),
        ),
        reply("", SUBMIT),
    )
    assert (tmp_path / "f").read_text() == "a\nb\n"
    assert list(model.results()) == ["1", "2"]


def test_a_malformed_call_is_answered_by_its_id_and_the_good_one_runs_once(tmp_path: Path) -> None:
    _, log, model, _ = attempt(
        tmp_path,
        reply(
            "", broken_call("bash", '{"command": "ls', "bad"), call("bash", command="echo x >> f")
        ),
        reply("", SUBMIT),
    )
    assert (tmp_path / "f").read_text() == "x\n"
    assert "Error parsing tool call arguments" in model.results()["bad"]
    assert log.steps[2].extra is not None
    assert log.steps[2].extra["malformed_calls"][0]["raw_arguments"] == '{"command": "ls'


@pytest.mark.parametrize(
    "bad",
    [
        reply(""),
        reply("I would rather talk."),
        reply("cut", finish="length"),
        reply("", broken_call("bash", "[]")),
        reply("", call("python", code="1")),
        reply("", call("bash")),
        reply("", call("bash", command=["ls"])),
        reply("", call("bash", command="a\0b")),
        reply("", call("bash", command="echo \ud83d")),
    ],
)
def test_one_odd_reply_is_answered_and_the_next_good_one_counts(
    tmp_path: Path, bad: ModelReply
) -> None:
    submission, log, model, env = attempt(tmp_path, bad, reply("ok", SUBMIT))
    assert submission.answer == "ok"
    assert env.commands[1:] == ["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]
    assert model.requests[1].messages[-1].role in ("tool", "user")
    assert log.notes == []


def test_repeated_format_errors_end_the_attempt(tmp_path: Path) -> None:
    submission, log, model, _ = attempt(
        tmp_path, reply("one"), reply("", call("nope")), reply("three")
    )
    assert submission == Submission(answer="three", stop_reason="format")
    assert [note.code for note in log.notes] == [Code.HARNESS_FORMAT]
    assert len(model.requests) == 3


def test_step_and_cost_limits_end_the_attempt_with_their_own_reasons(tmp_path: Path) -> None:
    step = reply("", call("bash", command="true"))
    submission, log, model, _ = attempt(tmp_path, *[step] * 5, step_limit=2)
    assert submission.stop_reason == "step_limit"
    assert [note.code for note in log.notes] == [Code.HARNESS_STEP_LIMIT]
    assert len(model.requests) == 2
    submission, log, model, _ = attempt(tmp_path, *[step] * 9, cost_limit=1.0)
    assert submission.stop_reason == "cost_limit"
    assert [note.code for note in log.notes] == [Code.HARNESS_COST_LIMIT]
    assert len(model.requests) == 4  # 4 × $0.25


def test_unknown_prices_are_no_error_and_no_repeat(tmp_path: Path) -> None:
    step = reply("", call("bash", command="true"), usage=UNPRICED_CALL)
    _, log, model, _ = attempt(tmp_path, step, step, reply("", SUBMIT, usage=UNPRICED_CALL))
    assert len(model.requests) == 3
    metrics = log.trajectory().final_metrics
    assert metrics is not None
    assert (metrics.total_cost_usd, metrics.total_prompt_tokens) == (None, 30)


def test_a_full_context_ends_the_attempt_graded_after_one_call(tmp_path: Path) -> None:
    full = AgentCompassError(Code.MODEL_CONTEXT_WINDOW, "too long")
    step = reply("", call("bash", command="echo kept > f"))
    submission, log, model, _ = attempt(tmp_path, step, full)
    assert submission.stop_reason == "context_window"
    assert [note.code for note in log.notes] == [Code.MODEL_CONTEXT_WINDOW]
    assert len(model.requests) == 2
    assert (tmp_path / "f").exists()


@pytest.mark.parametrize("code", [Code.MODEL_AUTH, Code.MODEL_UNAVAILABLE, Code.ENVIRONMENT_LOST])
def test_other_failures_rise_unchanged_and_are_asked_once(tmp_path: Path, code: Code) -> None:
    model, log = ScriptedModel(AgentCompassError(code, "gone")), new_log()
    harness = MiniSweAgent(MiniSweAgentParameters())
    with pytest.raises(AgentCompassError, match="^gone$") as raised:
        asyncio.run(harness.run(task(), ProcessSandbox(tmp_path), model, log))
    assert raised.value.code is code
    assert len(model.requests) == 1
    assert_valid_trajectory(log.trajectory())


def test_a_crash_of_the_library_is_noted_and_what_it_left_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, message: object) -> None:
        raise ZeroDivisionError("boom\nsecond line")

    monkeypatch.setattr(library.load().agent_class, "execute_actions", broken)
    submission, log, *_ = attempt(tmp_path, reply("", call("bash", command="true")))
    assert submission.stop_reason == "crashed"
    assert log.notes[0].message == "mini-swe-agent: ZeroDivisionError: boom second line"


def test_a_failure_of_our_own_is_not_called_the_librarys(tmp_path: Path) -> None:
    async def faulty() -> ModelReply:
        raise KeyError("ours")

    harness = MiniSweAgent(MiniSweAgentParameters())
    with pytest.raises(KeyError, match="ours"):
        asyncio.run(harness.run(task(), ProcessSandbox(tmp_path), ScriptedModel(faulty), new_log()))


def test_a_command_over_its_time_is_killed_and_told(tmp_path: Path) -> None:
    _, _, model, _ = attempt(
        tmp_path,
        reply("", call("bash", command="echo before; sleep 60")),
        reply("", SUBMIT),
        command_timeout=0.5,
    )
    result = model.results()["c1"]
    assert "before" in result
    assert "timed out after 0.5 seconds" in result


def test_a_pager_or_a_prompt_does_not_hang_and_the_next_output_is_clean(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    _, _, model, _ = attempt(
        tmp_path,
        reply("", call("bash", command="read x; python3; echo $PAGER; git log")),
        reply("", call("bash", command="echo ok")),
        reply("", SUBMIT),
    )
    first = model.requests[1].messages[-1].content
    assert "cat" in first
    assert "does not have any commits yet" in first
    assert '"output": "ok\\n"' in model.requests[2].messages[-1].content


def test_the_tasks_own_variables_win_over_the_librarys(tmp_path: Path) -> None:
    model = ScriptedModel(
        reply("", call("bash", command="echo =$PAGER-$MANPAGER=")), reply("", SUBMIT)
    )
    mine = task(requirements=Requirements(env={"PAGER": "mine"}))
    harness = MiniSweAgent(MiniSweAgentParameters())
    asyncio.run(harness.run(mine, ProcessSandbox(tmp_path), model, new_log()))
    assert "=-cat=" in model.results()["c1"]  # the sandbox itself sets the task's variables


def test_odd_bytes_in_output_pass_through(tmp_path: Path) -> None:
    command = r"printf '\xff\xfe\x80 ok\n'; printf 'a\0b \\u0000 \xe2\x80\xa8'; exit 7"
    _, log, model, _ = attempt(
        tmp_path, reply("", call("bash", command=command)), reply("", SUBMIT)
    )
    result = model.results()["c1"]
    assert " ok" in result
    assert '"returncode": 7' in result


def test_calls_before_a_submission_in_one_reply_are_in_the_trajectory(tmp_path: Path) -> None:
    _, log, *_ = attempt(tmp_path, reply("", call("bash", "1", command="echo seen"), SUBMIT))
    observation = log.steps[-1].observation
    assert observation is not None
    assert [r.source_call_id for r in observation.results] == ["1", "s"]
    assert observation.results[0].content == "seen\n"


def test_the_trajectory_holds_every_message_and_the_librarys_version(tmp_path: Path) -> None:
    _, log, *_ = attempt(tmp_path, reply("a", call("bash", command="true")), reply("b", SUBMIT))
    assert [step.source for step in log.steps] == ["system", "user", "agent", "agent"]
    assert log.version == library.load().version
    assert log.trajectory().agent.version == library.load().version
