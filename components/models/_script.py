"""The script of the `scripted` model: what it answers, by task, attempt and turn.

A YAML or JSON file (or the same mapping inline), every part optional:

    tasks:
      add-two:                                  # a task id
        attempts:
          2: ["I give up."]                     # in attempt 2 of this task
        replies:                                # in its other attempts, one per turn
          - tool_calls: [{name: bash, arguments: {command: "echo 4 > answer.txt"}}]
          - "The answer is 4."
      greet: "Hello."                           # short for replies: ["Hello."]
    rules:
      - match: "(?i)capital of France"          # searched in the first user message
        replies: ["Paris"]
    default: ["I do not know."]                 # when nothing else fits

The turn is the number of assistant messages in the request, so a resumed conversation goes on
where it was. After the last reply of a list that reply repeats.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.invalid import first_problem
from agentcompass.components.contracts.model import FinishReason
from agentcompass.components.contracts.user_path import user_path

FIELD = "model-params.script"
NO_SCRIPT_TEXT = "This is the fixed reply of the scripted model; it has no script."


class ScriptedCall(Frozen):
    name: str
    arguments: Mapping[str, Any] | str = {}
    """An object, or the raw text as a model might have written it, broken or not."""
    id: str | None = None


class ScriptedUsage(Frozen):
    """Token counts."""

    input: Annotated[int, Field(ge=0)]
    cached: Annotated[int, Field(ge=0)] | None = None
    output: Annotated[int, Field(ge=0)]
    reasoning: Annotated[int, Field(ge=0)] | None = None


class ScriptedError(Frozen):
    """A failed call."""

    code: Code
    message: str = "scripted failure"
    physical_attempts: Annotated[int, Field(ge=1)] | None = None
    """Only in this many first executions of the attempt, then the reply holds; unset: always."""

    @field_validator("code")
    @classmethod
    def _of_the_model(cls, code: Code) -> Code:
        if not code.startswith("model."):
            raise ValueError("a model call fails with a model.* code")
        return code


class ScriptedReply(Frozen):
    content: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    reasoning: str | None = None
    finish_reason: FinishReason | None = None
    """Unset: `tool_calls` if there are any, else `stop`."""
    usage: ScriptedUsage | None = None
    """Unset: whitespace-separated words are counted as tokens."""
    uncounted: bool = False
    """The reply carries no token counts."""
    delay_seconds: Annotated[float, Field(ge=0)] = 0.0
    error: ScriptedError | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"content": value} if isinstance(value, str) else value


Replies = Annotated[tuple[ScriptedReply, ...], Field(min_length=1)]


def _as_list(value: object) -> object:
    return value if isinstance(value, list | tuple) or value is None else [value]


class TaskScript(Frozen):
    attempts: Mapping[int, Replies] = {}
    replies: Replies | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_replies(cls, value: object) -> object:
        if isinstance(value, Mapping) and set(value) & {"attempts", "replies"}:
            return value
        return {"replies": _as_list(value)}


class Rule(Frozen):
    match: str
    replies: Replies

    @field_validator("match")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value


class Script(Frozen):
    tasks: Mapping[str, TaskScript] = {}
    rules: tuple[Rule, ...] = ()
    default: Replies | None = None

    def reply(self, key: AttemptKey, first_user: str, turn: int) -> ScriptedReply:
        """Raises model.bad_request if nothing in the script fits."""
        replies = self._replies(key, first_user)
        if replies is None:
            raise AgentCompassError(
                Code.MODEL_BAD_REQUEST,
                f"the script has no reply for {key}; add the task, a rule or a default",
            )
        return replies[min(turn, len(replies) - 1)]

    def _replies(self, key: AttemptKey, first_user: str) -> tuple[ScriptedReply, ...] | None:
        if (task := self.tasks.get(key.task_id)) is not None:
            found = task.attempts.get(key.index, task.replies)
            if found is not None:
                return found
        for rule in self.rules:
            if re.search(rule.match, first_user):
                return rule.replies
        return self.default


def read_script(source: str | Mapping[str, Any] | None) -> Script:
    """The script at a path, or an inline one; without either, one fixed text for every call.

    Raises RequestError that names the file and the place in it.
    """
    if source is None:
        return Script(default=(ScriptedReply(content=NO_SCRIPT_TEXT),))
    where, document = ("", source) if isinstance(source, Mapping) else _parsed(Path(source))
    if not isinstance(document, Mapping):
        raise RequestError(FIELD, f"{where}a script is a mapping with tasks, rules or default")
    values = dict(document)
    if "default" in values:
        values["default"] = _as_list(values["default"])
    try:
        return Script.model_validate(values)
    except ValidationError as error:
        raise RequestError(FIELD, f"{where}at {first_problem(error, 'the top')}") from None


def _parsed(path: Path) -> tuple[str, object]:
    path = user_path(path, FIELD)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise RequestError(FIELD, f"cannot read {path}: {reason}") from None
    try:
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise RequestError(FIELD, f"{path}: {place}: {error.msg}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise RequestError(FIELD, f"{path}: {place}: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise RequestError(FIELD, f"{path}: {' '.join(str(error).split())}") from None
    return f"{path}: ", document
