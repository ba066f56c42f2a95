"""Reasoning goes back where demanded, stays away where refused, and answers nothing (C31)."""

import json
from pathlib import Path

import pytest

from tests.cases.rig import ask, measure
from tests.cases.toy import AGENTS, Toy, number, one_by_one, put, shell, submit
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo


def thinking(harness: str, request: RequestInfo) -> Reply:
    """A tool loop of three turns; each comes with its own reasoning."""
    moves = (shell(harness, "ls"), put(harness, number(request)), submit(harness))
    reply = one_by_one(*moves)(request)
    return Reply(tool_calls=reply.tool_calls, reasoning=f"thought {request.step}")


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic-messages"])
@pytest.mark.parametrize("harness", AGENTS)
def test_a_demands_it_back_unchanged(tmp_path: Path, harness: str, protocol: str) -> None:
    script = lambda request: thinking(harness, request)  # noqa: E731
    with ModelServer(script, mode="reasoning_required") as endpoint:
        request = ask(tmp_path, "quickstart", harness, endpoint.base_url, protocol=protocol)
        ran = measure(request, Toy(2))
        assert len(endpoint.requests) == 6
    assert ran.metrics.headline.value == 1.0
    thoughts = [s.reasoning_content for s in ran.steps("toy-1") if s.source == "agent"]
    assert thoughts == ["thought 0", "thought 1", "thought 2"]
    assert all("thought" not in step.message for step in ran.steps("toy-1"))


@pytest.mark.parametrize("harness", AGENTS)
def test_b_refuses_every_unknown_field(tmp_path: Path, harness: str) -> None:
    script = lambda request: thinking(harness, request)  # noqa: E731
    with ModelServer(script, mode="strict_fields") as endpoint:
        request = ask(tmp_path, "quickstart", harness, endpoint.base_url, task_concurrency=1)
        ran = measure(request, Toy(2))
        # Refused once in the whole run, then left out.
        assert len(endpoint.requests) == 7
    assert ran.metrics.headline.value == 1.0
    assert ran.metrics.failures == ()
    thoughts = [s.reasoning_content for s in ran.steps("toy-2") if s.source == "agent"]
    assert thoughts == ["thought 0", "thought 1", "thought 2"]


@pytest.mark.parametrize("harness", AGENTS)
def test_c_an_answer_only_in_the_reasoning_is_an_empty_answer(tmp_path: Path, harness: str) -> None:
    only = Reply(text="", reasoning="I will submit 1. ANSWER: 1")
    with ModelServer(lambda request: only) as endpoint:
        ran = measure(ask(tmp_path, "quickstart", harness, endpoint.base_url), Toy())
    record = ran.record("toy-1")
    assert (record.status, record.value) == ("scored", 0.0)
    assert record.submission is not None
    assert record.submission.stop_reason == "format"
    assert not record.submission.answer
    assert [note.code for note in record.notes] == ["harness.format"]


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_c_a_question_is_not_answered_by_reasoning_either(tmp_path: Path, protocol: str) -> None:
    data = tmp_path / "questions.jsonl"
    data.write_text(json.dumps({"question": "1 + 1?", "answer": "#### 2"}))
    with ModelServer(lambda request: Reply(text="", reasoning="#### 2")) as endpoint:
        request = ask(
            tmp_path,
            "gsm8k",
            "openai_chat",
            endpoint.base_url,
            protocol=protocol,
            benchmark_params={"data_path": str(data)},
        )
        ran = measure(request)
        assert len(endpoint.requests) == 1
    assert ran.metrics.headline.value == 0.0
    (record,) = ran.records().values()
    assert "submission.empty" in [note.code for note in record.notes]
    (step,) = (s for s in ran.steps(record.key.task_id) if s.source == "agent")
    assert (step.message, step.reasoning_content) == ("", "#### 2")
