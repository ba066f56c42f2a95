import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, RequestError
from agentcompass.components.contracts.model import Message, ModelAccess, ModelReply, ModelRequest
from agentcompass.components.contracts.trajectory import Trajectory
from agentcompass.components.models.replay import COMPONENT, ReplayModel
from tests.components.models.conversations import attempt


def model(path: Path) -> ReplayModel:
    made = COMPONENT.create(
        COMPONENT.parameters.model_validate({"trajectory": str(path)}), ModelAccess(name="replay")
    )
    assert isinstance(made, ReplayModel)
    return made


def reply(made: ReplayModel, key: AttemptKey, turns: int = 0) -> ModelReply:
    """The call after so many others; what the harness made of the earlier replies is its own."""
    asked, client = ModelRequest(messages=(Message(role="user", content="hi"),)), made.client(key)
    for _ in range(turns):
        asyncio.run(client.complete(asked))
    return asyncio.run(client.complete(asked))


def steps(word: str) -> list[dict[str, Any]]:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
    broken = {"tool_call_id": "c2", "function_name": "bash", "arguments": {}}
    kept = {"tool_call_id": "c2", "raw_arguments": '{"comm', "problem": "broken"}
    metrics = {"prompt_tokens": 10, "completion_tokens": 4, "extra": {"reasoning_tokens": 3}}
    return [
        {"step_id": 1, "source": "user", "message": "hi"},
        {"step_id": 2, "source": "agent", "message": "made without a model"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "",
            "reasoning_content": "hm",
            "tool_calls": [call, broken],
            "metrics": metrics,
            "extra": {"finish_reason": "length", "malformed_calls": [kept]},
        },
        {"step_id": 4, "source": "agent", "message": word, "model_name": "m"},
    ]


def record(path: Path, word: str, **extra: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "schema_version": "ATIF-v1.8",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "steps": steps(word),
        "extra": extra or None,
    }
    Trajectory.model_validate(document)
    path.write_text(json.dumps(document))
    return path


def test_recorded_replies_come_back_by_task_attempt_and_turn(tmp_path: Path) -> None:
    for task in ("a", "b"):
        for index in (1, 2):
            place = tmp_path / "tasks" / task / f"attempt-{index}" / "trajectory.json"
            record(place, f"{task}{index}", task_id=task, attempt=index)
    made = model(tmp_path)
    asyncio.run(made.check())
    first = reply(made, attempt("b", 2))
    fine, broken = first.message.tool_calls
    assert (fine.id, fine.arguments) == ("c1", {"command": "ls"})
    assert (broken.arguments, broken.raw_arguments) == (None, '{"comm')
    assert (first.message.reasoning, first.finish_reason) == ("hm", "length")
    assert (first.usage.input_tokens, first.usage.reasoning_tokens) == (10, 3)
    assert first.usage.cost_usd == 0
    assert reply(made, attempt("b", 2)).message.content == "b2"
    assert reply(made, attempt("a", 1), turns=1).message.content == "a1"


def test_a_conversation_longer_than_the_record_is_an_error_not_a_guess(tmp_path: Path) -> None:
    made = model(record(tmp_path / "trajectory.json", "x"))
    with pytest.raises(AgentCompassError, match="recorded with 2 model replies"):
        reply(made, attempt(), turns=2)


def test_an_attempt_without_a_record_is_named(tmp_path: Path) -> None:
    record(tmp_path / "trajectory.json", "x", task_id="a", attempt=1)
    record(tmp_path / "retries" / "1" / "trajectory.json", "x", task_id="a", attempt=2)
    for source in (tmp_path, tmp_path / "trajectory.json"):
        with pytest.raises(AgentCompassError, match="no trajectory of a #2"):
            reply(model(source), attempt("a", 2))


def test_a_single_record_without_ids_serves_every_attempt(tmp_path: Path) -> None:
    made = model(record(tmp_path / "any-name.json", "x"))
    for key in (attempt("a"), attempt("b", 3)):
        assert reply(made, key, turns=1).message.content == "x"


def test_check_names_what_cannot_be_replayed(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="does not exist"):
        asyncio.run(model(tmp_path / "missing").check())
    with pytest.raises(RequestError, match="no trajectory"):
        asyncio.run(model(tmp_path).check())
    (tmp_path / "trajectory.json").write_text("{")
    with pytest.raises(RequestError, match="is not JSON"):
        asyncio.run(model(tmp_path).check())
    (tmp_path / "trajectory.json").write_text("{}")
    with pytest.raises(RequestError, match="has no steps"):
        asyncio.run(model(tmp_path).check())
