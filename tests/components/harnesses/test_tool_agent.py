"""The tool-calling loop: real commands, scripted replies, every odd reply answered."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import ModelReply, ToolCall
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.execution.log import TrajectoryLog
from agentcompass.components.harnesses.tool_agent import (
    COMPONENT,
    ToolAgent,
    ToolAgentParameters,
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

SUBMIT = call("submit", "s", answer="42")


def attempt(
    folder: Path, *turns: Turn, **parameters: object
) -> tuple[Submission, TrajectoryLog, ScriptedModel, ProcessSandbox]:
    model, log, env = ScriptedModel(*turns), new_log("tool_agent"), ProcessSandbox(folder)
    harness = ToolAgent(ToolAgentParameters.model_validate(parameters))
    submission = asyncio.run(harness.run(task("Fix it."), env, model, log))
    conformance.assert_valid_trajectory(log.trajectory())
    return submission, log, model, env


def result_of(folder: Path, *calls: ToolCall, **parameters: object) -> dict[str | None, str]:
    """What the model is shown for these calls."""
    _, _, model, _ = attempt(folder, reply("", *calls), reply("", SUBMIT), **parameters)
    return model.results()


def codes(log: TrajectoryLog) -> list[Code]:
    return [note.code for note in log.notes]


def test_it_reads_fixes_checks_and_submits(tmp_path: Path) -> None:
    (tmp_path / "add.py").write_text("def add(a, b):\n    return a - b\n")
    fixed = "def add(a, b):\n    return a + b\n"
    submission, log, model, _ = attempt(
        tmp_path,
        reply("", call("read_file", "1", path="add.py")),
        reply("", call("write_file", "2", path="add.py", content=fixed)),
        reply("", call("shell", "3", command="python3 -c 'import add; print(add.add(1, 2))'")),
        reply("Done.", SUBMIT),
    )
    assert submission == Submission(answer="42")
    assert (tmp_path / "add.py").read_text() == fixed
    assert model.results()["3"] == "exit code 0\nstdout:\n3\n"
    assert [s.source for s in log.steps] == ["system", "user", *["agent"] * 4]
    assert log.notes == []


def test_submitting_without_an_answer_answers_nothing(tmp_path: Path) -> None:
    submission, *_ = attempt(tmp_path, reply("text", call("submit")))
    assert submission == Submission(answer=None)


def test_the_shell_tells_exit_code_streams_signals_and_timeouts(tmp_path: Path) -> None:
    results = result_of(
        tmp_path,
        call("shell", "both", command="echo out; echo err >&2; exit 7"),
        call("shell", "none", command="true"),
        call("shell", "killed", command="kill -9 $$"),
        call("shell", "slow", command="echo begun; sleep 60", timeout_seconds=0.4),
    )
    assert results["both"] == "exit code 7\nstdout:\nout\n\nstderr:\nerr\n"
    assert results["none"] == "exit code 0\n(no output)"
    assert results["killed"].startswith("killed by signal 9")
    assert results["slow"] == "timed out after 0.4 s and was killed\nstdout:\nbegun\n"


def test_a_call_cannot_ask_for_more_time_than_allowed(tmp_path: Path) -> None:
    slow = call("shell", command="sleep 60", timeout_seconds=1e6)
    result = result_of(tmp_path, slow, command_timeout_seconds=0.3)["c1"]
    assert result.startswith("timed out after 0.3 s")


def test_nothing_waits_for_a_terminal_and_the_next_output_is_clean(tmp_path: Path) -> None:
    hangs = "git init -q . ; git commit --allow-empty; read x; python3; sudo -k true; git log"
    _, _, model, _ = attempt(
        tmp_path,
        reply("", call("shell", "1", command=hangs)),
        reply("", call("shell", "2", command="echo ok")),
        reply("", SUBMIT),
        command_timeout_seconds=30,
    )
    assert "timed out" not in model.results()["1"]
    assert model.results()["2"] == "exit code 0\nstdout:\nok\n"


def test_long_output_keeps_head_and_tail_and_short_stderr_whole(tmp_path: Path) -> None:
    command = "echo HEAD; yes x | head -c 5000; echo TAIL; echo problem >&2"
    result = result_of(tmp_path, call("shell", command=command), observation_limit_chars=400)["c1"]
    assert "HEAD" in result
    assert "TAIL" in result
    assert "characters left out ...]" in result
    assert result.endswith("stderr:\nproblem\n")
    assert len(result) < 600


def test_files_are_read_whole_or_in_part_and_errors_are_told(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\u2028still\nthree\n")
    (tmp_path / "bytes").write_bytes(b"\xff\x00ok")
    (tmp_path / "empty").touch()
    results = result_of(
        tmp_path,
        call("read_file", "all", path="f"),
        call("read_file", "part", path="f", first_line=2, line_count=1),
        call("read_file", "beyond", path="f", first_line=9),
        call("read_file", "nulls", path="f", first_line=None, line_count=None),
        call("read_file", "missing", path="no"),
        call("read_file", "folder", path="."),
        call("read_file", "bytes", path="bytes"),
        call("read_file", "empty", path="empty"),
    )
    assert results["all"] == results["nulls"] == "one\ntwo\u2028still\nthree\n"
    assert results["part"] == "two\u2028still"
    assert results["beyond"].startswith("error: the file has only")
    assert results["missing"].startswith("error: FileNotFoundError")
    assert results["folder"].startswith("error: IsADirectoryError")
    assert results["bytes"] == "\ufffd\x00ok"
    assert results["empty"] == "(empty)"


def test_text_that_is_not_json_safe_passes_through(tmp_path: Path) -> None:
    results = result_of(
        tmp_path,
        call("shell", "out", command=r"printf 'a\0b \xff \xe2\x80\xa8 \\u0000'"),
        call("write_file", "write", path="nul", content="x\0y"),
    )
    assert results["out"].endswith("a\0b \ufffd \u2028 \\u0000")
    assert (tmp_path / "nul").read_bytes() == b"x\0y"


def test_the_reply_is_sent_back_unchanged(tmp_path: Path) -> None:
    first = reply(
        "hm",
        call("shell", command="true"),
        reasoning="because",
        provider_fields={"thinking_blocks": [{"signature": "s", "text": ""}]},
    )
    _, _, model, _ = attempt(tmp_path, first, reply("", SUBMIT))
    assert model.requests[1].messages[2] == first.message


BAD_CALLS = [
    (broken_call("shell", '{"command": "ls"'), "not a JSON object"),
    (call("python", code="1"), "there is no tool 'python'; the tools are shell, read_file"),
    (call("shell"), "shell needs the argument 'command'"),
    (call("shell", command=["ls"]), "'command' must be a JSON string, not list"),
    (call("shell", command=None), "'command' must be a JSON string, not NoneType"),
    (call("shell", command="ls", timeout_seconds="5"), "'timeout_seconds' must be a JSON number"),
    (call("shell", command="ls", timeout_seconds=True), "must be a JSON number, not bool"),
    (call("shell", command="ls", timeout_seconds=-1), "must be above 0"),
    (call("shell", command="ls", timeout_seconds=float("nan")), "must be above 0"),
    (call("shell", cmd="ls"), "shell needs the argument 'command'"),
    (call("shell", command="ls", cwd="/"), "has no argument 'cwd'; it takes command"),
    (call("shell", command="ls\0"), "holds a NUL"),
    (call("shell", command="echo \ud83d"), "half a surrogate pair"),
    (call("write_file", path="f", content="\ud83d"), "half a surrogate pair"),
    (call("read_file", path="f", first_line=1.5), "must be a JSON integer"),
    (call("x" * 100_000), "characters left out"),
]


@pytest.mark.parametrize(("bad", "told"), BAD_CALLS)
def test_a_bad_call_gets_an_error_and_its_neighbour_runs_once(
    tmp_path: Path, bad: ToolCall, told: str
) -> None:
    good = call("shell", "good", command="echo x >> f")
    submission, log, model, env = attempt(tmp_path, reply("", bad, good), reply("", SUBMIT))
    results = model.results()
    assert results["c1"].startswith("error: ")
    assert told in results["c1"]
    assert len(results["c1"]) < 1000
    assert env.commands == ["echo x >> f"]
    assert submission.answer == "42"
    assert log.notes == []


def test_any_number_of_malformed_calls_costs_steps_only(tmp_path: Path) -> None:
    bad = [reply("", broken_call("shell", raw)) for raw in ("[]", "null", "", '"{}"', "x" * 9)]
    submission, *_ = attempt(tmp_path, *bad, reply("", SUBMIT))
    assert submission == Submission(answer="42")


def test_a_call_cut_off_at_the_token_limit_says_so(tmp_path: Path) -> None:
    bad = broken_call("write_file", '{"path": "f", "content": "aaaa')
    _, _, model, _ = attempt(tmp_path, reply("", bad, finish="length"), reply("", SUBMIT))
    assert "cut off at the token limit" in model.results()["c1"]


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (reply(""), "empty"),
        (reply("", reasoning="deep"), "empty"),
        (reply("I am done."), "called no tool"),
        (reply("", finish="length"), "cut off"),
        (reply("", finish="content_filter"), "content filter"),
    ],
)
def test_a_reply_without_a_call_is_reminded_and_the_next_good_one_counts(
    tmp_path: Path, odd: ModelReply, told: str
) -> None:
    submission, _, model, _ = attempt(tmp_path, odd, odd, reply("", SUBMIT))
    assert submission == Submission(answer="42")
    assert told in model.requests[1].messages[-1].content
    assert all(m.content or m.tool_calls for m in model.requests[2].messages)


def test_only_odd_replies_in_a_row_end_it_and_the_last_text_is_the_answer(tmp_path: Path) -> None:
    work = reply("", call("shell", command="true"))
    submission, log, model, _ = attempt(
        tmp_path, reply("a"), reply("b"), work, reply("c"), reply("The answer is 7."), reply("")
    )
    assert submission == Submission(answer="The answer is 7.", stop_reason="format")
    assert codes(log) == [Code.HARNESS_FORMAT]
    assert len(model.requests) == 6


def test_reasoning_alone_never_becomes_the_answer(tmp_path: Path) -> None:
    submission, *_ = attempt(tmp_path, *[reply("", reasoning="42")] * 3)
    assert submission == Submission(answer=None, stop_reason="format")


def test_calls_after_a_submission_in_one_reply_are_not_run(tmp_path: Path) -> None:
    late = call("shell", "late", command="touch late")
    submission, log, _, env = attempt(tmp_path, reply("", SUBMIT, late))
    assert submission.answer == "42"
    assert env.commands == []
    observation = log.steps[-1].observation
    assert observation is not None
    assert observation.results[1].content == "not run: the agent had submitted"


def test_each_limit_ends_the_attempt_with_its_own_reason(tmp_path: Path) -> None:
    work = reply("", call("shell", command="true"))
    for parameters, requests, reason, code in (
        ({"step_limit": 3}, 3, "step_limit", Code.HARNESS_STEP_LIMIT),
        ({"token_limit": 30}, 2, "token_limit", Code.HARNESS_TOKEN_LIMIT),
        ({"cost_limit": 0.6}, 3, "cost_limit", Code.HARNESS_COST_LIMIT),
    ):
        submission, log, model, _ = attempt(tmp_path, *[work] * 9, **parameters)
        assert (len(model.requests), submission.stop_reason) == (requests, reason)
        assert codes(log) == [code]


def test_unknown_cost_and_tokens_stay_unknown_and_stop_nothing(tmp_path: Path) -> None:
    unknown = Usage(calls=1, uncounted_calls=1, unpriced_calls=1)
    _, log, model, _ = attempt(
        tmp_path,
        reply("", call("shell", command="true"), usage=unknown),
        reply("", call("shell", command="true"), usage=UNPRICED_CALL),
        reply("", SUBMIT, usage=unknown),
        cost_limit=0.01,
        token_limit=100,
    )
    assert len(model.requests) == 3
    metrics = log.trajectory().final_metrics
    assert metrics is not None
    assert metrics.total_cost_usd is None


def test_a_full_context_keeps_what_was_done(tmp_path: Path) -> None:
    submission, log, model, _ = attempt(
        tmp_path,
        reply("", call("shell", command="echo kept > f")),
        AgentCompassError(Code.MODEL_CONTEXT_WINDOW, "full"),
    )
    assert submission.stop_reason == "context_window"
    assert codes(log) == [Code.MODEL_CONTEXT_WINDOW]
    assert (tmp_path / "f").exists()
    assert len(model.requests) == 2


def test_a_sandbox_that_went_away_is_no_tool_error(tmp_path: Path) -> None:
    class Gone(ProcessSandbox):
        async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
            raise AgentCompassError(Code.ENVIRONMENT_LOST, "gone")

    model = ScriptedModel(reply("", call("read_file", path="f")))
    with pytest.raises(AgentCompassError, match="gone"):
        asyncio.run(ToolAgent(ToolAgentParameters()).run(task(), Gone(tmp_path), model, new_log()))


def test_cancelled_in_a_command_nothing_runs_on(tmp_path: Path) -> None:
    model = ScriptedModel(reply("", call("shell", command="echo $$ > pid; sleep 300")))
    log = new_log()

    async def scenario() -> None:
        harness = ToolAgent(ToolAgentParameters())
        running = asyncio.create_task(harness.run(task(), ProcessSandbox(tmp_path), model, log))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    conformance.assert_valid_trajectory(log.trajectory())


def test_the_schemas_are_plain_json() -> None:
    from agentcompass.components.harnesses.tool_agent.tools import TOOLS

    for tool in TOOLS:
        assert json.loads(json.dumps(tool.parameters))["additionalProperties"] is False


def test_limits_that_make_no_sense_are_refused() -> None:
    for wrong in ({"step_limit": 0}, {"cost_limit": -1}, {"step_limt": 5}):
        with pytest.raises(ValidationError):
            ToolAgentParameters.model_validate(wrong)


def test_it_does_what_every_harness_must(tmp_path: Path) -> None:
    conformance.assert_well_declared(COMPONENT)
    harness, env = ToolAgent(ToolAgentParameters()), ProcessSandbox(tmp_path)
    conformance.assert_model_errors_rise(harness, env)
    conformance.assert_full_context_is_graded(harness, env)
    conformance.assert_ends_when_cancelled(harness, env)
    conformance.assert_reasoning_is_no_answer(
        harness, env, lambda: (reply("", SUBMIT, reasoning="SECRET"),)
    )
