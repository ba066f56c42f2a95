"""Rows of a SWE-bench data set: read, checked, and made into samples."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.datasets.hub import HubSource, read_hub
from agentcompass.components.datasets.local import FIELD, Located, read_local
from agentcompass.components.datasets.records import rows_hash

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PATCH = re.compile(r"^diff --git ", re.MULTILINE)


class Instance(Frozen):
    """One row. Columns that a data set may lack have defaults."""

    instance_id: str
    repo: str
    """Owner/name."""
    base_commit: str
    patch: str
    """The accepted change; the known-good solution."""
    test_patch: str
    problem_statement: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    hints_text: str = ""
    version: str = ""
    environment_setup_commit: str = ""
    """Its requirement files are the ones to install; empty: the base commit's."""
    test_command: str = ""
    """From the optional columns `test_cmd` or `test_command`: over the known one."""
    install: str = ""
    python: str = ""


@dataclass(frozen=True)
class Rows:
    instances: tuple[Instance, ...]
    source: str
    revision: str | None
    content_hash: str


def load_rows(hub: HubSource, data_dir: Path, data_path: str | None, revision: str | None) -> Rows:
    """The instances of `data_path` if given, else of the hub data set.

    Blocking. Raises RequestError for a row that is not as it must be (with its place), and
    what `read_hub` raises.
    """
    commit = None
    located: Iterable[Located]
    if data_path:
        if revision:
            raise RequestError(
                "benchmark-params.revision",
                "a local file has no revision",
                "leave out `revision` or `data_path`",
            )
        path = user_path(data_path, FIELD)
        field, source, where, located = FIELD, path.name, str(path), read_local(path)
    else:
        field, source = "benchmark-params.revision", hub.repository
        where = source
        commit, located = read_hub(hub, revision, data_dir)
    instances: dict[str, Instance] = {}
    for place, row in located:
        instance = _instance(row, field, f"{where}, {place}")
        if instance.instance_id in instances:
            raise RequestError(
                field, f"{where}, {place}: instance_id {instance.instance_id!r} stands there twice"
            )
        instances[instance.instance_id] = instance
    if not instances:
        raise RequestError(field, f"{where} holds no records")
    found = tuple(instances.values())
    return Rows(found, source, commit, rows_hash([item.model_dump() for item in found]))


def instance_hash(instance: Instance, *more: str) -> str:
    """sha256 over the row and whatever else can change the task's result."""
    parts = [rows_hash([instance.model_dump()]), *more]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _instance(row: Mapping[str, Any], field: str, place: str) -> Instance:
    def refuse(problem: str) -> RequestError:
        return RequestError(field, f"{place}: {problem}")

    def text(name: str, *, needed: bool = True) -> str:
        value = row.get(name)
        if value is None and not needed:
            return ""
        if name not in row:
            there = ", ".join(map(repr, list(row)[:14]))
            raise refuse(f"no column {name!r}; the columns there: {there}")
        if not isinstance(value, str):
            raise refuse(f"column {name!r} holds {type(value).__name__}, not text")
        if needed and not value.strip():
            raise refuse(f"column {name!r} is empty")
        return value

    def names(name: str) -> tuple[str, ...]:
        """A list, or the JSON text of one, as the published data sets have it."""
        value = row.get(name, row.get(name.lower()))
        if isinstance(value, str):
            try:
                value = json.loads(value or "[]")
            except ValueError as error:
                raise refuse(f"column {name!r} is not a JSON list: {error}") from None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise refuse(f"column {name!r} is not a list of test names")
        return tuple(dict.fromkeys(value))

    def matching(name: str, pattern: re.Pattern[str], what: str) -> str:
        value = text(name)
        if not pattern.fullmatch(value):
            raise refuse(f"column {name!r} holds {value[:60]!r}, not {what}")
        return value

    def diff(name: str) -> str:
        value = text(name)
        if not _PATCH.search(value):
            raise refuse(f"column {name!r} is not a git diff")
        return value

    def commands(*options: str) -> str:
        value = next((row[name] for name in options if row.get(name)), "")
        if isinstance(value, list):
            value = " && ".join(map(str, value))
        if not isinstance(value, str):
            raise refuse(f"column {options[0]!r} is not a command")
        return value

    fail_to_pass = names("FAIL_TO_PASS")
    if not fail_to_pass:
        raise refuse("FAIL_TO_PASS is empty: anything would solve this task")
    return Instance(
        instance_id=matching("instance_id", _ID, "an id"),
        repo=matching("repo", _REPOSITORY, "an owner/name"),
        base_commit=matching("base_commit", _COMMIT, "a full commit hash"),
        patch=diff("patch"),
        test_patch=diff("test_patch"),
        problem_statement=text("problem_statement"),
        fail_to_pass=fail_to_pass,
        pass_to_pass=names("PASS_TO_PASS"),
        hints_text=text("hints_text", needed=False),
        version=text("version", needed=False),
        environment_setup_commit=text("environment_setup_commit", needed=False),
        test_command=commands("test_command", "test_cmd"),
        install=commands("install"),
        python=text("python", needed=False),
    )
