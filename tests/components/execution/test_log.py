"""The attempt's log: what it records, and that any state of it is a valid trajectory."""

import threading

from agentcompass.components.contracts.attempt import AttemptKey, Note
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.model import Message, ModelReply, ToolCall, ToolDefinition
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.execution.log import TrajectoryLog
from tests.components.harnesses.fakes import broken_call, call, reply
from tests.conformance.harness import assert_valid_trajectory


def new_log() -> TrajectoryLog:
    return TrajectoryLog("agent", "1.0", "m", AttemptKey(task_id="a/b", index=2, physical=3))


def test_an_empty_log_is_a_valid_trajectory_that_says_so() -> None:
    trajectory = new_log().trajectory()
    assert_valid_trajectory(trajectory)
    assert trajectory.steps[0].message == "No step logged."
    assert trajectory.extra == {"task_id": "a/b", "attempt": 2, "physical": 3}
    assert new_log().steps == ()


def test_a_conversation_is_recorded_in_order_with_results_under_their_calls() -> None:
    log = new_log()
    log.tools([ToolDefinition(name="shell", description="d", parameters={"type": "object"})])
    log.system("s")
    log.user("u")
    log.agent(reply("think", call("shell", "1", command="ls"), reasoning="r"))
    log.user("an aside")
    log.observe("1", "out")
    log.action("by hand")
    log.observe(None, "done")
    assert_valid_trajectory(log.trajectory())
    assert [s.source for s in log.steps] == ["system", "user", "agent", "user", "agent"]
    asked, by_hand = log.steps[2], log.steps[4]
    assert (asked.reasoning_content, asked.model_name) == ("r", "fake-1")
    assert asked.observation is not None
    assert asked.observation.results[0].source_call_id == "1"
    assert by_hand.observation is not None
    assert (by_hand.model_name, by_hand.metrics, by_hand.tool_calls) == (None, None, None)
    definitions = log.trajectory().agent.tool_definitions
    assert definitions is not None
    assert definitions[0]["function"]["name"] == "shell"


def test_a_result_without_its_call_keeps_its_content_but_names_no_call() -> None:
    log = new_log()
    log.observe("ghost", "before any step")
    log.agent(reply("", call("shell", "1", command="ls")))
    log.observe("other", "x")
    assert_valid_trajectory(log.trajectory())
    contents = [s.observation.results[0].content for s in log.steps if s.observation]
    assert contents == ["before any step", "x"]


def test_a_malformed_call_has_no_arguments_and_keeps_what_was_sent() -> None:
    log = new_log()
    log.agent(reply("", broken_call("shell", '{"command": "ls"', "bad"), call("shell", "ok", a=1)))
    assert_valid_trajectory(log.trajectory())
    step = log.steps[0]
    assert step.tool_calls is not None
    assert [dict(c.arguments) for c in step.tool_calls] == [{}, {"a": 1}]
    assert step.extra is not None
    assert step.extra["malformed_calls"] == [
        {
            "tool_call_id": "bad",
            "raw_arguments": '{"command": "ls"',
            "problem": "not a JSON object",
        }
    ]


def test_totals_sum_what_is_known_and_stay_unknown_where_nothing_is() -> None:
    log = new_log()
    log.agent(reply("a", usage=Usage(calls=1, input_tokens=3, output_tokens=1, cost_usd=0.5)))
    log.agent(reply("b", usage=Usage(calls=1, input_tokens=4, unpriced_calls=1)))
    log.agent(reply("c", usage=Usage(calls=1, uncounted_calls=1, unpriced_calls=1)))
    totals = log.trajectory().final_metrics
    assert totals is not None
    assert (totals.total_prompt_tokens, totals.total_completion_tokens) == (7, 1)
    assert (totals.total_cost_usd, totals.total_cached_tokens, totals.total_steps) == (0.5, None, 3)
    assert log.steps[2].metrics is None


def test_timing_finish_reason_and_reasoning_tokens_are_kept() -> None:
    log = new_log()
    log.agent(
        ModelReply(
            message=Message(role="assistant", content="x"),
            finish_reason="length",
            usage=Usage(calls=1, output_tokens=9, reasoning_tokens=8),
            latency_seconds=1.5,
            waiting_seconds=2.5,
        ),
        extra={"mine": 1},
    )
    assert log.steps[0].extra == {
        "finish_reason": "length",
        "latency_seconds": 1.5,
        "waiting_seconds": 2.5,
        "mine": 1,
    }
    metrics = log.steps[0].metrics
    assert metrics is not None
    assert metrics.extra == {"reasoning_tokens": 8}


def test_notes_belong_to_the_run_phase_and_the_real_version_wins() -> None:
    log = new_log()
    log.note(Code.HARNESS_STEP_LIMIT, "50 steps")
    assert log.notes == [Note(code=Code.HARNESS_STEP_LIMIT, phase=Phase.RUN, message="50 steps")]
    assert (log.version, log.trajectory().agent.version) == (None, "1.0")
    log.agent_version("2.4.6")
    assert (log.version, log.trajectory().agent.version) == ("2.4.6", "2.4.6")


def test_text_that_is_not_json_safe_is_kept_as_it_came() -> None:
    log = new_log()
    odd = "nul \0 half \ud83d sep \u2028 literal \\u0000"
    log.agent(
        ModelReply(
            message=Message(
                role="assistant",
                content=odd,
                tool_calls=(ToolCall(id="1", name="shell", arguments={"command": odd}),),
            ),
            finish_reason="tool_calls",
            usage=Usage(calls=1),
        )
    )
    log.observe("1", odd)
    step = log.trajectory().steps[0]
    assert step.tool_calls is not None
    assert step.observation is not None
    assert step.message == step.tool_calls[0].arguments["command"] == odd
    assert step.observation.results[0].content == odd


def test_steps_from_several_threads_are_all_there_and_numbered() -> None:
    log = new_log()

    def work() -> None:
        for _ in range(50):
            log.agent(reply("x", call("shell", "1", command="ls")))
            log.observe("1", "y")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log.steps) == 400
    assert sum(len(s.observation.results) for s in log.steps if s.observation) == 400
    assert_valid_trajectory(log.trajectory())
