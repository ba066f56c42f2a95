"""A conversation that outgrew the model is not asked again: what was done is graded (C27)."""

import json
import logging
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from tests.cases.rig import ask, measure
from tests.cases.toy import AGENTS, Toy, put, shell
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

OPENAI = {
    "error": {
        "message": "This model's maximum context length is 8192 tokens. However, your messages "
        "resulted in 9001 tokens. Please reduce the length of the messages.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}
ANTHROPIC = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "prompt is too long: 205000 tokens > 200000 maximum",
    },
}
RETRIES = {
    "max_retries": 2,
    "retry_min_delay_seconds": 0.1,
    "retry_pattern_list": ("context", "401"),
}
"""Of whole attempts, which must not multiply with those of a call."""
FREE_TEXT = "the request exceeds the available context size, try increasing it"


@pytest.mark.parametrize(
    ("protocol", "refusal"),
    [
        ("openai-chat", json.dumps(OPENAI)),
        ("openai-responses", json.dumps(OPENAI)),
        ("anthropic-messages", json.dumps(ANTHROPIC)),
        ("openai-chat", FREE_TEXT),
    ],
    ids=["openai", "responses", "anthropic", "free text"],
)
@pytest.mark.parametrize("harness", AGENTS)
def test_it_is_asked_once_and_what_was_done_is_graded(
    tmp_path: Path, harness: str, protocol: str, refusal: str
) -> None:
    moves = [put(harness), shell(harness, "ls"), Reply(status=400, body=refusal)]
    with ModelServer(lambda request: moves[min(request.step, 2)]) as endpoint:
        request = ask(
            tmp_path, "quickstart", harness, endpoint.base_url, protocol=protocol, **RETRIES
        )
        benchmark = Toy()
        ran = measure(request, benchmark)
        assert [r.step for r in endpoint.requests] == [0, 1, 2]
    record = ran.record("toy-1")
    assert (record.status, record.value, record.failure) == ("scored", 1.0, None)
    assert (record.key.physical, record.earlier_failures) == (1, ())
    assert benchmark.verified == ["toy-1"]
    assert record.submission is not None
    assert record.submission.stop_reason == "context_window"
    assert [note.code for note in record.notes] == ["model.context_window"]
    assert [w.code for w in ran.metrics.warnings] == ["model.context_window"]
    assert ran.metrics.coverage.fraction == 1.0
    assert record.usage.calls == 3


@pytest.mark.parametrize(
    ("status", "code", "word"),
    [(401, "model.auth", "key"), (404, "model.not_found", "model")],
)
@pytest.mark.parametrize("harness", AGENTS)
def test_a_key_or_a_model_that_is_gone_is_asked_for_once_and_stops_the_run(
    tmp_path: Path,
    harness: str,
    status: int,
    code: str,
    word: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)

    def answer(request: RequestInfo) -> Reply:
        if request.step == 0:
            return put(harness)
        return Reply(status=status, text="no longer")

    with ModelServer(answer) as endpoint:
        request = ask(
            tmp_path, "quickstart", harness, endpoint.base_url, task_concurrency=1, **RETRIES
        )
        ran = measure(request, Toy(4), may_stop=True)
        assert len(endpoint.requests) == 2
    assert isinstance(ran.failure, AgentCompassError)
    assert ran.failure.code == code
    assert word in str(ran.failure)
    assert "\n" not in str(ran.failure)
    assert ran.codes() == {"toy-1 #1": code}
    assert ran.metrics.coverage.missing == 3
    assert ran.metrics.headline.value is None
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert ran.metrics.failures[0].code is Code(code)
