"""Built in: repeats the model's side of recorded trajectories."""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.model import (
    FinishReason,
    Message,
    ModelAccess,
    ModelReply,
    ModelRequest,
    ToolCall,
)
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.models._offline import Answer, OfflineClient
from agentcompass.components.models._tool_calls import SentCall, read_calls
from agentcompass.components.models._usage import count

FIELD = "model-params.trajectory"
_FINISH = get_args(FinishReason)


class ReplayParameters(Frozen):
    """What is replayed."""

    trajectory: str
    """A trajectory.json, or a folder of a finished run. In a folder each attempt is looked up by
    the task id and attempt number in the trajectories. A single file without those serves every
    attempt."""


@dataclass
class _Recording:
    """Of one attempt; what was given is forgotten, so that memory does not grow with the run."""

    total: int
    left: deque[Mapping[str, Any]]
    asked: int = 0


class ReplayModel:
    """The n-th call of an attempt gets the n-th recorded reply, whatever the request says.

    Token counts are those recorded; the cost is 0, since nothing is called.
    """

    prices_known = True

    def __init__(self, parameters: ReplayParameters, access: ModelAccess) -> None:
        self._source = user_path(parameters.trajectory, FIELD)
        self._name = access.name or "replay"
        self._files = _trajectories(self._source)
        self._found: dict[tuple[str, int], Path] = {}
        self._recordings: dict[AttemptKey, _Recording] = {}

    async def check(self) -> None:
        """Raises RequestError if there is nothing to replay; calls nothing."""
        if not self._source.exists():
            raise RequestError(FIELD, f"{self._source} does not exist")
        first = next(_trajectories(self._source), None)
        if first is None:
            raise RequestError(FIELD, f"no trajectory.json under {self._source}")
        _read(first)

    def client(self, key: AttemptKey) -> OfflineClient:
        return OfflineClient(self._name, key, self._answer, prices_known=True)

    async def close(self) -> None:
        self._recordings.clear()

    def _answer(self, key: AttemptKey, request: ModelRequest) -> Answer:
        if key not in self._recordings:
            steps = self._recorded(key)
            self._recordings[key] = _Recording(len(steps), deque(steps))
        recording = self._recordings[key]
        recording.asked += 1
        if not recording.left:
            raise AgentCompassError(
                Code.MODEL_BAD_REQUEST,
                f"{key} was recorded with {recording.total} model replies; the harness asks for "
                f"number {recording.asked}",
            )
        return Answer(reply=_reply(recording.left.popleft(), self._name))

    def _recorded(self, key: AttemptKey) -> list[Mapping[str, Any]]:
        wanted = (key.task_id, key.index)
        while wanted not in self._found:
            path = next(self._files, None)
            if path is None:
                raise AgentCompassError(
                    Code.MODEL_BAD_REQUEST, f"no trajectory of {key} under {self._source}"
                )
            recorded = _identity(_read(path))
            if recorded is None and self._source.is_file():
                recorded = wanted
                self._files = iter((path,))  # it serves every attempt
            if recorded is not None:
                self._found.setdefault(recorded, path)
        return _model_steps(_read(self._found[wanted]))


def _trajectories(source: Path) -> Iterator[Path]:
    """The file itself, or those under a folder; earlier tries under `retries/` are left out."""
    if source.is_file():
        yield source
        return
    for path in sorted(source.rglob("trajectory.json")):
        if "retries" not in path.relative_to(source).parts:
            yield path


def _read(path: Path) -> Mapping[str, Any]:
    """Any ATIF 1.x document, read leniently: other tools write them too."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(FIELD, f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise RequestError(FIELD, f"{path} is not JSON: {error}") from None
    if not isinstance(document, Mapping) or not isinstance(document.get("steps"), list):
        raise RequestError(FIELD, f"{path} is not a trajectory: it has no steps")
    return document


def _identity(document: Mapping[str, Any]) -> tuple[str, int] | None:
    extra = _extra(document)
    task, attempt = extra.get("task_id"), extra.get("attempt")
    return (task, attempt) if isinstance(task, str) and isinstance(attempt, int) else None


def _model_steps(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Agent steps made by a model; all agent steps where the record does not tell them apart."""
    steps = [s for s in document["steps"] if isinstance(s, Mapping) and s.get("source") == "agent"]
    named = [
        s for s in steps if s.get("model_name") or s.get("metrics") or "finish_reason" in _extra(s)
    ]
    return named or steps


def _reply(step: Mapping[str, Any], name: str) -> ModelReply:
    calls = _calls(step)
    metrics = step.get("metrics")
    finish = _extra(step).get("finish_reason")
    given, made = count(metrics, "prompt_tokens"), count(metrics, "completion_tokens")
    reasoning = step.get("reasoning_content")
    return ModelReply(
        message=Message(
            role="assistant",
            content=_text(step.get("message")),
            tool_calls=calls,
            reasoning=reasoning if isinstance(reasoning, str) else None,
        ),
        finish_reason=finish if finish in _FINISH else "tool_calls" if calls else "stop",
        usage=Usage(
            calls=1,
            input_tokens=given,
            cached_input_tokens=count(metrics, "cached_tokens"),
            output_tokens=made,
            reasoning_tokens=count(metrics, "extra", "reasoning_tokens"),
            cost_usd=0.0,
            uncounted_calls=int(given is None or made is None),
        ),
        model_name=step.get("model_name") or name,
    )


def _calls(step: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Malformed calls come back as malformed: their raw text stands in the step's extra."""
    malformed = {
        call.get("tool_call_id"): call.get("raw_arguments")
        for call in _extra(step).get("malformed_calls", ())
    }
    sent = []
    for call in step.get("tool_calls") or ():
        call_id = call.get("tool_call_id")
        arguments = malformed.get(call_id, call.get("arguments"))
        sent.append(SentCall(call_id, call.get("function_name"), arguments))
    return read_calls(sent)


def _extra(source: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = source.get("extra")
    return extra if isinstance(extra, Mapping) else {}


def _text(message: object) -> str:
    if isinstance(message, list):
        return "\n".join(str(p.get("text", "")) for p in message if isinstance(p, Mapping))
    return message if isinstance(message, str) else ""


COMPONENT = Component(version="1", create=ReplayModel, parameters=ReplayParameters)
