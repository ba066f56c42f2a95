"""What the stand-in model endpoint answers: replies, and the script that chooses one.

Script file (YAML or JSON), every part optional:

    mode: reasoning_required        # 400 unless earlier reasoning comes back unchanged, or
                                    # strict_fields: 400 on any unknown field of a message
    storm:                          # for the first `seconds`, this share of calls is refused
      {seconds: 60, share: 0.7, seed: 1, replies: [{status: 429, headers: {Retry-After: 5}}]}
    rules:
      - match: "regular expression" # searched in the first user message; the first rule wins
        replies: [REPLY, …]         # one per step; the last one repeats
        attempts: {2: [REPLY, …]}   # instead, in the n-th conversation with this first message
    default: [REPLY, …]             # when no rule matches

A REPLY is a text, or a mapping with any of: `text`, `reasoning`, `tool_calls` (each `name`,
`arguments` as a mapping or as raw text, `id`), `usage` (`input`, `cached`, `output`, `reasoning`;
null: the reply carries no usage), `finish_reason` (as the protocol spells it), `status`,
`headers`, `body` (sent as it is; without one, other statuses than 200 carry `text` as the
error's message), `content_type`, `delay_seconds`, and one
of `hang: true` (accepts, never answers), `drip_seconds: N` (a byte every N seconds), `stall: true`
(half the answer, then silence), `reset: true` (drops the connection). A header value
`Retry-After: date+7` becomes the HTTP date in seven seconds.

The step is the number of assistant turns in the request, so the script needs no memory; the
attempt is read back from the ids of earlier tool calls, else it is the latest conversation.
"""

import email.utils
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Usage:
    input: int = 10
    cached: int = 0
    output: int = 5
    reasoning: int = 0


@dataclass(frozen=True)
class Reply:
    text: str | None = ""
    reasoning: str | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    usage: Usage | None = field(default_factory=Usage)
    finish_reason: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    content_type: str = "application/json"
    delay_seconds: float = 0.0
    hang: bool = False
    drip_seconds: float | None = None
    stall: bool = False
    reset: bool = False

    @staticmethod
    def read(entry: object) -> "Reply":
        """A reply from a script's entry; unknown keys are a ValueError."""
        if isinstance(entry, str):
            return Reply(text=entry)
        if not isinstance(entry, Mapping):
            raise ValueError(f"a reply is a text or a mapping, not {entry!r}")
        known = {f.name for f in fields(Reply)}
        if unknown := set(entry) - known:
            raise ValueError(f"unknown keys in a reply: {sorted(unknown)}")
        values = dict(entry)
        if isinstance(values.get("usage"), Mapping):
            values["usage"] = Usage(**values["usage"])
        values["tool_calls"] = tuple(values.get("tool_calls", ()))
        values["headers"] = {k: str(v) for k, v in values.get("headers", {}).items()}
        return Reply(**values)

    def sent_headers(self) -> dict[str, str]:
        return {name: _header_value(value) for name, value in self.headers.items()}


@dataclass(frozen=True)
class RequestInfo:
    """One request as a script sees it."""

    number: int
    """Counts all requests of the server, from 1."""
    protocol: str
    path: str
    """With the query."""
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    first_user: str
    step: int
    attempt: int
    at_seconds: float
    """Since the server started."""
    in_flight: int
    """Requests being answered, this one included."""


Script = Callable[[RequestInfo], Reply]


class FileScript:
    """The script described at the top of this file."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        if unknown := set(document) - {"mode", "storm", "rules", "default"}:
            raise ValueError(f"unknown keys in the script: {sorted(unknown)}")
        self.mode: str | None = document.get("mode")
        self._rules = [
            (
                re.compile(rule["match"]),
                [Reply.read(r) for r in rule.get("replies", [])],
                {int(k): [Reply.read(r) for r in v] for k, v in rule.get("attempts", {}).items()},
            )
            for rule in document.get("rules", [])
        ]
        self._default = [Reply.read(r) for r in document.get("default", ["ok"])]
        self._storm = document.get("storm")
        self._storm_replies = [Reply.read(r) for r in (self._storm or {}).get("replies", [])]
        self._random = random.Random((self._storm or {}).get("seed", 0))

    def __call__(self, request: RequestInfo) -> Reply:
        if self._storm and request.at_seconds < self._storm["seconds"]:  # noqa: SIM102
            if self._random.random() < self._storm["share"]:
                return self._random.choice(self._storm_replies)
        for pattern, replies, attempts in self._rules:
            if pattern.search(request.first_user):
                return _step(attempts.get(request.attempt) or replies or self._default, request)
        return _step(self._default, request)


def load(path: Path) -> FileScript:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(document, Mapping):
        raise ValueError(f"{path}: a script is a mapping")
    return FileScript(document)


def _step(replies: list[Reply], request: RequestInfo) -> Reply:
    return replies[min(request.step, len(replies) - 1)]


def _header_value(value: str) -> str:
    if value.startswith("date+"):
        return email.utils.formatdate(time.time() + float(value[5:]), usegmt=True)
    return value
