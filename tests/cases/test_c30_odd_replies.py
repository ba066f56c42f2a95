"""Every kind of odd reply in one conversation, and the next good one still scores (C30)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.rig import Ran, ask, measure
from tests.cases.toy import AGENTS, Toy, in_order, put, submit
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, Usage

TOOLS = {"tool_agent": "shell", "mini_swe_agent": "bash"}
PATIENT = {
    "tool_agent": {"odd_reply_limit": 20},
    "mini_swe_agent": {"max_consecutive_format_errors": 0},
}
"""So that the agents' own limits on odd replies in a row do not end the conversation."""
BROKEN = {
    "delimiter": '{"command": "echo broken >> ran"',
    "array": "[]",
    "null": "null",
    "empty": "",
    "JSON": "x" * 2_000_000,
}
"""By a word of the complaint."""


def calling(*calls: dict[str, Any]) -> Reply:
    return Reply(tool_calls=calls)


def conversation(harness: str) -> list[Reply]:
    tool = TOOLS[harness]

    def ran(word: str, call_id: str) -> dict[str, Any]:
        return {"name": tool, "id": call_id, "arguments": {"command": f"echo {word} >> ran"}}

    inside = json.dumps(json.dumps({"command": "echo inside >> ran"}))
    bad_gateway = "<!doctype html><html><title>Bad gateway</title></html>"
    return [
        Reply(body='{"id": "x", "object": "chat.completion", "choices": []}'),
        Reply(text=None),
        Reply(text="", finish_reason="length"),
        Reply(text="", finish_reason="content_filter"),
        Reply(body='{"error": {"message": "something odd"}}'),
        Reply(status=502, body=bad_gateway, content_type="text/html"),
        *(calling({"name": tool, "arguments": broken}) for broken in BROKEN.values()),
        calling({"name": tool, "arguments": inside}),
        calling({"name": "no_such_tool", "arguments": {"command": "echo unknown >> ran"}}),
        calling(ran("first", "same"), ran("second", "same")),
        calling({"name": tool, "id": "bad", "arguments": '{"cmd": "ls"'}, ran("good", "good")),
        put(harness),
        submit(harness),
    ]


def run(folder: Path, harness: str) -> tuple[Ran, list[Any]]:
    script = conversation(harness)
    with ModelServer(in_order(*script)) as endpoint:
        request = ask(
            folder, "quickstart", harness, endpoint.base_url, harness_params=PATIENT[harness]
        )
        ran = measure(request, Toy())
        assert len(endpoint.requests) == len(script)
        return ran, [request.body for request in endpoint.requests]


@pytest.mark.parametrize("harness", AGENTS)
def test_the_good_reply_after_all_the_odd_ones_scores(tmp_path: Path, harness: str) -> None:
    ran, bodies = run(tmp_path, harness)
    record = ran.record("toy-1")
    assert (record.value, record.failure) == (1.0, None)
    assert record.submission is not None
    assert record.submission.stop_reason == "finished"

    # What was well formed ran once, in order, and nothing was made up for the rest.
    (kept,) = (a for a in record.submission.artifacts if a.path == "ran")
    stored = ran.store.folder.artifacts(record.key) / kept.name
    assert stored.read_text().split() == ["inside", "first", "second", "good"]

    # Three answers came in vain; each is counted, and only one is said to be known.
    assert record.usage.calls == len(bodies)
    assert record.usage.uncounted_calls == 3

    # Every call the endpoint sees again has arguments it can parse, and one answer of its own.
    last = bodies[-1]["messages"]
    called = [call for message in last for call in message.get("tool_calls") or ()]
    assert all(isinstance(json.loads(c["function"]["arguments"]), dict) for c in called)
    answered = [message["tool_call_id"] for message in last if message["role"] == "tool"]
    assert answered == [call["id"] for call in called]
    assert len(answered) == len(set(answered))
    assert all(len(json.dumps(body)) < 100_000 for body in bodies)

    # Each kind is told apart in the trajectory.
    steps = [step for step in ran.steps("toy-1") if step.source == "agent"]
    reasons = [(step.extra or {})["finish_reason"] for step in steps[:3]]
    assert reasons == ["stop", "length", "content_filter"]
    problems = [
        call["problem"] for step in steps for call in (step.extra or {}).get("malformed_calls", ())
    ]
    for word, problem in zip((*BROKEN, "delimiter"), problems, strict=True):
        assert word in problem
    assert ran.store.folder.trajectory(record.key).stat().st_size < 100_000


@pytest.mark.parametrize("harness", AGENTS)
@pytest.mark.parametrize(
    ("odd", "code"),
    [
        (Reply(body='{"choices": []}'), "model.invalid_reply"),
        (Reply(body='{"error": {"message": "something odd"}}'), "model.invalid_reply"),
        (Reply(status=502, body="<html></html>", content_type="text/html"), "model.unavailable"),
        (Reply(headers={"Content-Encoding": "gzip"}, body="{}"), "model.invalid_reply"),
        (Reply(text=None), None),
        (Reply(text="", finish_reason="length", usage=Usage(output=9)), None),
        (Reply(text="", finish_reason="content_filter"), None),
        (calling({"name": "shell", "arguments": "{"}), None),
    ],
    ids=[
        "no choices",
        "error in 200",
        "502",
        "not gzip",
        "null",
        "cut off",
        "filtered",
        "malformed",
    ],
)
def test_nothing_but_odd_replies_ends_in_the_class_of_its_cause(
    tmp_path: Path, harness: str, odd: Reply, code: str | None
) -> None:
    """The endpoint's faults have no score; the model's own are graded by what was left."""
    with ModelServer(lambda request: put(harness) if request.step == 0 else odd) as endpoint:
        request = ask(
            tmp_path,
            "quickstart",
            harness,
            endpoint.base_url,
            model_params={"max_retry_seconds": 0},
            harness_params={"step_limit": 12},
        )
        ran = measure(request, Toy())
        assert len(endpoint.requests) <= 13
    record = ran.record("toy-1")
    assert ran.codes() == {"toy-1 #1": code}
    assert record.value == (1.0 if code is None else None)
    if code is None:
        assert record.submission is not None
        assert record.submission.stop_reason in ("format", "step_limit")
        assert record.notes


@pytest.mark.parametrize(
    "usage",
    ["NaN", "Infinity", "1e999", "-5", '"many"', "true", "[]", "9" * 400],
)
def test_impossible_token_counts_are_unknown(tmp_path: Path, usage: str) -> None:
    """And not a crash, which would be graded as the agent's."""
    call = {"id": "c", "function": {"name": "submit", "arguments": "{}"}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    body = json.dumps(
        {"choices": [{"message": message}], "usage": {"prompt_tokens": "X", "completion_tokens": 1}}
    )
    with ModelServer(lambda request: Reply(body=body.replace('"X"', usage))) as endpoint:
        ran = measure(ask(tmp_path, "quickstart", "tool_agent", endpoint.base_url), Toy())
    record = ran.record("toy-1")
    assert record.notes == ()
    assert (record.usage.calls, record.usage.uncounted_calls) == (1, 1)
    assert record.usage.input_tokens is None


@pytest.mark.parametrize("calls", [True, 3, "text", {"id": "c"}, [3, None]])
def test_tool_calls_of_no_known_shape_are_no_calls(tmp_path: Path, calls: object) -> None:
    message = {"role": "assistant", "content": "hm", "tool_calls": calls}
    body = json.dumps({"choices": [{"message": message}]})
    moves = (Reply(body=body), put("tool_agent"), submit("tool_agent"))
    with ModelServer(in_order(*moves)) as endpoint:
        ran = measure(ask(tmp_path, "quickstart", "tool_agent", endpoint.base_url), Toy())
    assert ran.record("toy-1").value == 1.0
