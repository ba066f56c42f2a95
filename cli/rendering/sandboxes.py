"""What the tasks' sandboxes are opened with, and what recipes had to do with it."""

import json
from typing import Any

from agentcompass.cli.run_checks import Checked
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.task import Task

SHOWN_TASKS = 3


def sandbox_documents(checked: Checked) -> dict[str, Any]:
    """By task id: `requirements` (what differs from the defaults), `recipes` (their changes)."""
    return {sample.task.id: _document(checked, sample.task) for sample in checked.samples}


def sandbox_lines(checked: Checked) -> list[str]:
    """The first tasks' sandboxes for people; nothing where all of it is the provider's default."""
    shown = checked.samples[:SHOWN_TASKS]
    lines = []
    for sample in shown:
        document = _document(checked, sample.task)
        if not document:
            continue
        lines.append(f"{'sandbox':<12} {sample.task.id}")
        authors = {
            field: recipe for recipe, changes in document["recipes"].items() for field in changes
        }
        for field, value in document["requirements"].items():
            author = f"  (recipe {authors[field]})" if field in authors else ""
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"  {field}  {text}{author}")
    if lines and len(checked.samples) > len(shown):
        lines.append(f"  … {len(checked.samples) - len(shown)} more tasks (all: --json)")
    return lines


def _document(checked: Checked, task: Task) -> dict[str, Any]:
    try:
        required, adaptations = checked.parts.adapted(task)
    except RequestError:  # told by the preflight
        return {}
    differing = required.model_dump(mode="json", exclude_defaults=True)
    if not differing and not adaptations:
        return {}
    changes = {one.recipe_id: dict(one.changes) for one in adaptations}
    return {"requirements": differing, "recipes": json.loads(json.dumps(changes, default=str))}
