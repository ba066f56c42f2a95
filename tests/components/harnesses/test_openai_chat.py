"""One question, one reply."""

import asyncio

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import ModelReply
from agentcompass.components.execution.log import TrajectoryLog
from agentcompass.components.harnesses.openai_chat import COMPONENT, Chat, ChatParameters
from tests.components.harnesses.fakes import ScriptedModel, Turn, call, new_log, reply, task
from tests.conformance import harness as conformance


def attempt(
    turn: Turn, system_prompt: str | None = None
) -> tuple[Submission, TrajectoryLog, ScriptedModel]:
    model, log = ScriptedModel(turn), new_log()
    chat = Chat(ChatParameters(system_prompt=system_prompt))
    submission = asyncio.run(chat.run(task("What is 6 x 7?"), None, model, log))
    conformance.assert_valid_trajectory(log.trajectory())
    return submission, log, model


def codes(log: TrajectoryLog) -> list[Code]:
    return [note.code for note in log.notes]


def test_the_whole_reply_is_the_answer() -> None:
    submission, log, model = attempt(reply("It is 42.\n"))
    assert submission == Submission(answer="It is 42.\n")
    assert [(m.role, m.content) for m in model.requests[0].messages] == [("user", "What is 6 x 7?")]
    assert model.requests[0].tools == ()
    assert log.notes == []


def test_a_system_prompt_goes_first() -> None:
    _, log, model = attempt(reply("42"), system_prompt="Be brief.")
    assert [m.role for m in model.requests[0].messages] == ["system", "user"]
    assert [s.source for s in log.steps] == ["system", "user", "agent"]


def test_an_answer_only_in_the_reasoning_is_an_empty_answer() -> None:
    submission, log, _ = attempt(reply("", reasoning="42"))
    assert submission == Submission(answer="")
    assert codes(log) == [Code.SUBMISSION_EMPTY]
    assert log.steps[-1].reasoning_content == "42"


def test_a_truncated_reply_is_graded_and_says_so() -> None:
    submission, log, _ = attempt(reply("It is 4", finish="length"))
    assert submission == Submission(answer="It is 4", stop_reason="length")
    assert log.notes == []
    submission, log, _ = attempt(reply("", finish="length", reasoning="hm"))
    assert submission == Submission(answer="", stop_reason="length")
    assert log.notes[0].message.endswith("cut off at the token limit while reasoning")


def test_a_filtered_reply_is_noted() -> None:
    submission, log, _ = attempt(reply("", finish="content_filter"))
    assert submission.stop_reason == "content_filter"
    assert codes(log) == [Code.MODEL_CONTENT_FILTER, Code.SUBMISSION_EMPTY]
    submission, log, _ = attempt(AgentCompassError(Code.MODEL_CONTENT_FILTER, "refused"))
    assert submission == Submission(stop_reason="content_filter")
    assert codes(log) == [Code.MODEL_CONTENT_FILTER]


def test_a_call_of_a_tool_that_was_not_offered_is_an_empty_answer() -> None:
    submission, log, _ = attempt(reply("", call("python", code="6*7")))
    assert submission.answer == ""
    assert codes(log) == [Code.SUBMISSION_EMPTY]


def test_it_does_what_every_harness_must() -> None:
    conformance.assert_well_declared(COMPONENT)
    chat = Chat(ChatParameters())
    assert not chat.needs.sandbox
    conformance.assert_model_errors_rise(chat, None)
    conformance.assert_full_context_is_graded(chat, None)
    conformance.assert_ends_when_cancelled(chat, None)

    def script() -> tuple[ModelReply, ...]:
        return (reply("", reasoning="SECRET"),)

    conformance.assert_reasoning_is_no_answer(chat, None, script)
