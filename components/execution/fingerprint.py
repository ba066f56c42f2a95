"""What a result depends on. Two runs with equal fingerprints may share attempts. Pure.

In: benchmark, harness, environment and model with their versions and parameters; per task its
content hash, which stands beside it in the records. Out, because it changes no result: how much
runs at once, retries, deadlines, logging, the endpoint's address and key, paths, k, which other
tasks are selected, and how the headline counts.
"""

import hashlib
import json
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
        "environment": _component(plan.environment, PLACES),
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
