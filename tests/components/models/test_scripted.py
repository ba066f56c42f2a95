import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.model import Message, ModelAccess, ModelReply, ModelRequest
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.models._script import NO_SCRIPT_TEXT
from agentcompass.components.models.scripted import COMPONENT, ScriptedModel
from tests.components.models.conversations import attempt


def model(**parameters: Any) -> ScriptedModel:
    made = COMPONENT.create(
        COMPONENT.parameters.model_validate(parameters), ModelAccess(name="scripted")
    )
    assert isinstance(made, ScriptedModel)
    return made


def reply(made: ScriptedModel, key: AttemptKey, turns: int = 0, text: str = "hi") -> ModelReply:
    said = tuple(Message(role="assistant", content="earlier") for _ in range(turns))
    asked = ModelRequest(messages=(Message(role="user", content=text), *said))
    return asyncio.run(made.client(key).complete(asked))


def test_without_a_script_one_fixed_text_answers() -> None:
    assert reply(model(), attempt()).message.content == NO_SCRIPT_TEXT


def test_attempt_then_task_then_rule_then_default() -> None:
    made = model(
        script={
            "tasks": {"a": {"attempts": {2: ["second"]}, "replies": ["any"]}, "b": "short"},
            "rules": [{"match": "(?i)france", "replies": ["Paris"]}],
            "default": ["no idea"],
        }
    )
    assert reply(made, attempt("a", 2)).message.content == "second"
    assert reply(made, attempt("a", 1)).message.content == "any"
    assert reply(made, attempt("b")).message.content == "short"
    assert reply(made, attempt("c"), text="Capital of FRANCE?").message.content == "Paris"
    assert reply(made, attempt("c")).message.content == "no idea"


def test_the_turn_is_read_from_the_request_and_the_last_reply_repeats() -> None:
    made = model(script={"default": ["one", "two"]})
    said = [reply(made, attempt(), turns).message.content for turns in (0, 1, 2, 7)]
    assert said == ["one", "two", "two", "two"]


def test_tool_calls_reasoning_and_finish_reason() -> None:
    calls = [{"name": "bash", "arguments": {"command": "ls"}}, {"name": "bash", "arguments": "{"}]
    made = model(script={"default": [{"reasoning": "hm", "tool_calls": calls}]})
    got = reply(made, attempt())
    fine, broken = got.message.tool_calls
    assert fine.arguments == {"command": "ls"}
    assert broken.problem
    assert fine.id != broken.id
    assert (got.message.reasoning, got.finish_reason) == ("hm", "tool_calls")


def test_words_are_the_tokens_and_given_prices_the_cost() -> None:
    made = model(script={"default": ["three words here"]}, prices={"input": 10, "output": 100})
    usage = reply(made, attempt(), text="two words").usage
    assert (usage.input_tokens, usage.output_tokens) == (2, 3)
    assert usage.cost_usd == pytest.approx((2 * 10 + 3 * 100) / 1e6)
    assert made.prices_known
    assert reply(model(), attempt()).usage.unpriced_calls == 1


def test_usage_may_be_given_or_missing() -> None:
    given = model(script={"default": [{"usage": {"input": 9, "cached": 4, "output": 2}}]})
    usage = reply(given, attempt()).usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (9, 4, 2)
    missing = model(script={"default": [{"content": "x", "uncounted": True}]})
    assert reply(missing, attempt()).usage == Usage(calls=1, uncounted_calls=1, unpriced_calls=1)


def test_errors_may_pass_with_a_retry_of_the_attempt() -> None:
    error = {"code": "model.unavailable", "message": "down", "physical_attempts": 1}
    made = model(script={"default": [{"content": "up again", "error": error}]})
    client = made.client(attempt(physical=1))
    with pytest.raises(AgentCompassError, match="down") as caught:
        asyncio.run(client.complete(ModelRequest(messages=())))
    assert caught.value.code is Code.MODEL_UNAVAILABLE
    assert client.usage == Usage(calls=1)
    assert reply(made, attempt(physical=2)).message.content == "up again"


def test_a_delay_is_model_time() -> None:
    made = model(script={"default": [{"content": "x", "delay_seconds": 0.2}]})
    client = made.client(attempt())
    asyncio.run(client.complete(ModelRequest(messages=())))
    assert client.model_seconds >= 0.19
    assert client.waiting_seconds < 0.1


def test_a_task_the_script_does_not_know_is_named() -> None:
    made = model(script={"tasks": {"a": "x"}})
    with pytest.raises(AgentCompassError, match="no reply for other #1"):
        reply(made, attempt("other"))


@pytest.mark.parametrize("name", ["script.yaml", "script.json"])
def test_a_script_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(json.dumps({"tasks": {"a": {"attempts": {"2": ["x"]}}}, "default": "y"}))
    made = model(script=str(path))
    asyncio.run(made.check())
    assert reply(made, attempt("a", 2)).message.content == "x"
    assert reply(made, attempt("a", 1)).message.content == "y"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("s.yaml", "tasks:\n  a: [x\n  b: y\n", "line 3, column 4"),
        ("s.json", '{"tasks": {\n "a" 1}}', "line 2, column 6"),
        ("s.yaml", "- a\n", "a script is a mapping"),
        ("s.yaml", "task: {}\n", "at task: Extra inputs"),
        ("s.yaml", "tasks: {a: [{text: x}]}\n", r"tasks\.a\.replies\.0\.text"),
        ("s.yaml", "default: []\n", "at default"),
        ("s.yaml", "rules: [{match: '(', replies: [x]}]\n", "not a regular expression"),
        ("s.yaml", "default: [{error: {code: harness.timeout}}]\n", "model call fails"),
    ],
)
def test_check_names_the_place_in_a_bad_script(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(RequestError, match=said) as caught:
        asyncio.run(model(script=str(path)).check())
    assert caught.value.field == "model-params.script"
    assert str(path) in str(caught.value)


def test_check_names_a_missing_script() -> None:
    with pytest.raises(RequestError, match=r"cannot read no-such\.yaml: No such file"):
        asyncio.run(model(script="no-such.yaml").check())
