"""What a result depends on. Two runs with equal fingerprints may share attempts. Pure.

In: benchmark, harness, environment and model with their versions and parameters; per task its
content hash, which stands beside it in the records. Out, because it changes no result: how much
runs at once, retries, logging, the endpoint's address and key, paths, k, which other tasks are
selected, and how the headline counts. Out as well, though agents may run out of time: deadlines.
Who changes one takes over what was made under the other.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.run import PlannedComponent, RunPlan

SELECTION = frozenset(BenchmarkParameters.model_fields) | {"data_path", "revision"}
"""Of a benchmark: which tasks, from where. What is in them is in each task's content hash."""

TRANSPORT = frozenset(
    {"timeout", "connect_timeout", "max_retry_seconds", "headers", "prices", "script", "trajectory"}
)
"""Of a model: how it is reached and what it costs."""

PLACES = frozenset({"temp_dir"})

FILES = ("script", "trajectory")
"""Parameters of built-in models that name a file: its content counts, not its path."""


def fingerprint(plan: RunPlan) -> dict[str, Any]:
    """JSON-ready, the same in every process."""
    params = plan.model_params
    return {
        "benchmark": _component(plan.benchmark, SELECTION),
        "harness": _component(plan.harness, frozenset()),
        "environment": _with_sources(_component(plan.environment, PLACES)),
        **({"recipes": {one.id: one.version for one in plan.recipes}} if plan.recipes else {}),
        "model": {
            "id": plan.request.model.id,
            "protocol": plan.model_protocol,
            "params": {k: v for k, v in params.items() if k not in TRANSPORT},
            **{name: _content(params[name]) for name in FILES if params.get(name)},
        },
    }


def digest(parts: Any) -> str:
    """A short name for a fingerprint."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The fields in which they differ: `model.params.temperature: 0.0 → 0.7`."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    return [
        f"{name}: {_shown(before.get(name))} → {_shown(after.get(name))}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _component(planned: PlannedComponent, without: frozenset[str]) -> dict[str, Any]:
    return {
        "id": planned.id,
        "version": planned.version,
        "params": {k: v for k, v in planned.params.items() if k not in without},
    }


def _with_sources(environment: dict[str, Any]) -> dict[str, Any]:
    """With the contents of what is put into every sandbox, in the place of its paths here."""
    params = environment["params"]
    setup = params.get("setup") or {}
    if not setup.get("files"):
        return environment
    files = {target: _source(path) for target, path in setup["files"].items()}
    return {**environment, "params": {**params, "setup": {**setup, "files": files}}}


def _source(place: str) -> str:
    """A local file or folder: names, links, contents, and what may be executed."""
    root, digest = Path(place).expanduser(), hashlib.sha256()
    try:
        root = root.resolve(strict=True)
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            mode, content = path.lstat().st_mode, b""
            if stat.S_ISLNK(mode):
                content = os.fsencode(path.readlink())
            elif stat.S_ISREG(mode):
                with path.open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").digest()
            name = os.fsencode(path.relative_to(root))
            kind = stat.S_IFMT(mode) | (mode & 0o100)
            digest.update(b"%d %d %s %d %s\n" % (kind, len(name), name, len(content), content))
    except OSError:  # whoever opens a sandbox with it tells
        return place
    return digest.hexdigest()[:16]


def _content(value: Any) -> str:
    if not isinstance(value, str):
        return digest(value)
    path = Path(value).expanduser()
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError:  # a folder of trajectories: its name is all there is
        return value


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"
