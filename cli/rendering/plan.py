"""The plan of a run: what `--dry-run` prints."""

import json
from collections.abc import Mapping
from typing import Any

from agentcompass.cli.rendering.columns import columns
from agentcompass.cli.rendering.sandboxes import sandbox_documents, sandbox_lines
from agentcompass.cli.run_checks import Checked
from agentcompass.components.configuration.secrets import NO_KEY
from agentcompass.components.execution.deadlines import Deadlines, deadlines
from agentcompass.components.results.masking import Masker

SHOWN_IDS = 5


def plan_document(checked: Checked) -> dict[str, Any]:
    """The whole plan, without secrets: references stand where they belong."""
    attempts = checked.plan.request.execution.attempts
    return {
        "plan": _masker(checked).value(checked.plan.model_dump(mode="json")),
        "dataset": {
            "source": checked.dataset.source,
            "revision": checked.dataset.revision,
            "content_hash": checked.dataset.content_hash,
            "tasks": len(checked.dataset.samples),
        },
        "tasks": [sample.task.id for sample in checked.samples],
        "sandboxes": _masker(checked).value(sandbox_documents(checked)),
        "planned_attempts": len(checked.samples) * attempts.k,
        "results": str(checked.folder),
    }


def plan_lines(checked: Checked) -> list[str]:
    """The plan for people; parameters below their component."""
    plan, request = checked.plan, checked.plan.request
    lines: list[str] = []
    for word, component, choice in (
        ("benchmark", plan.benchmark, request.benchmark),
        ("harness", plan.harness, request.harness),
        ("environment", plan.environment, request.environment),
    ):
        head = f"{component.id} (version {component.version}, {component.origin})"
        lines += [_field(word, head), *_parameters(component.params, choice.params)]
    lines.append(_field("model", _model(checked)))
    lines += _parameters(plan.model_params, request.model.params)
    lines += [
        _field("recipe", f"{one.id} (version {one.version}, {one.origin})") for one in plan.recipes
    ]
    lines.append(_field("tasks", _tasks(checked)))
    lines += sandbox_lines(checked)
    lines.append(_field("attempts", _attempts(checked)))
    lines.append(_field("deadlines", _deadlines(checked)))
    limit = request.runtime.timeout_seconds
    lines.append(_field("whole run", f"{limit:g} s at most" if limit else "no limit"))
    lines.append(_field("results", f"{checked.folder}/{request.runtime.run_id or '<start time>'}"))
    return [_masker(checked).text(line) for line in lines]


def brief_lines(checked: Checked) -> list[str]:
    """The plan of one of many: what was chosen, and of the parameters what the user set."""
    request = checked.plan.request
    lines = [
        _field("benchmark", _chosen(request.benchmark.id, request.benchmark.params)),
        _field("harness", _chosen(request.harness.id, request.harness.params)),
        _field("environment", _chosen(request.environment.id, request.environment.params)),
        _field("model", _chosen(_model(checked), request.model.params)),
        *(_field("recipe", one.id) for one in checked.plan.recipes),
        _field("tasks", _tasks(checked)),
        _field("attempts", _attempts(checked)),
        _field("results", str(checked.folder)),
    ]
    return [_masker(checked).text(line) for line in lines]


def _chosen(name: str, params: Mapping[str, Any]) -> str:
    """`quickstart {"limit": 3}`"""
    return f"{name} {json.dumps(params, ensure_ascii=False)}" if params else name


def _masker(checked: Checked) -> Masker:
    """References stand for secrets already; a parameter may still repeat one."""
    return Masker(checked.parts.secrets)


def _field(name: str, text: str) -> str:
    return f"{name:<12} {text}"


def _parameters(params: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Complete; what the user set is marked."""
    rows = [
        (name, json.dumps(_set(value), ensure_ascii=False), "(set)" if name in given else "")
        for name, value in params.items()
    ]
    return ["  " + line for line in columns(rows)]


def _set(value: Any) -> Any:
    """Without what is unset inside."""
    if not isinstance(value, Mapping):
        return value
    return {name: _set(inner) for name, inner in value.items() if inner is not None}


def _model(checked: Checked) -> str:
    spec = checked.plan.request.model
    parts = [spec.id, f"by {checked.plan.model_protocol}"]
    if spec.base_url:
        parts.append(f"at {spec.base_url}")
    if spec.api_key:
        wants_none = spec.api_key.env.lower() == NO_KEY
        parts.append("without a key" if wants_none else "with a key (not shown)")
    return " ".join(parts)


def _tasks(checked: Checked) -> str:
    ids = [sample.task.id for sample in checked.samples]
    more = f", … {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
    return (
        f"{len(ids)} of {len(checked.dataset.samples)} from {checked.dataset.source}: "
        f"{', '.join(ids[:SHOWN_IDS])}{more}"
    )


def _attempts(checked: Checked) -> str:
    execution = checked.plan.request.execution
    k, strategy = execution.attempts.k, execution.attempts.strategy
    at_most = " at most" if strategy == "pass" and k > 1 else ""
    return (
        f"{len(checked.samples) * k}{at_most} (k={k}, {strategy}), "
        f"{execution.task_concurrency} at once"
    )


def _deadlines(checked: Checked) -> str:
    """In seconds; a range where tasks differ."""
    settings = checked.plan.request.execution
    all_of_them = [deadlines(settings, sample.task) for sample in checked.samples]
    return ", ".join(
        f"{name} {_range([getattr(one, name) for one in all_of_them])}"
        for name in Deadlines._fields
    )


def _range(seconds: list[float | None]) -> str:
    least, most = (
        pick(seconds, key=lambda s: float("inf") if s is None else s) for pick in (min, max)
    )
    words = ["none" if s is None else f"{s:g} s" for s in (least, most)]
    return words[0] if words[0] == words[1] else " to ".join(words)
