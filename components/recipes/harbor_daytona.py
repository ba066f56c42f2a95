"""Harbor tasks and Terminal-Bench 2 on Daytona: as much disk as each task asks for.

A task's `storage_mb` is space it needs, not a limit to hold it to: where sandboxes share the
disk of their machine (Docker, Modal) there is nothing to do.
"""

from collections.abc import Mapping
from typing import Any

from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.recipe import Match, RecipeContext, RecipeParameters
from agentcompass.components.contracts.task import Task


class AllottedDisk:
    match = Match(benchmarks=("harbor_tasks", "terminal_bench_2"), environments=("daytona",))

    def __init__(self, parameters: RecipeParameters) -> None:
        """Recipes take none."""

    def adapt(self, task: Task, context: RecipeContext) -> Mapping[str, Any]:
        wanted = task.metadata.get("storage_mb")
        return {"resources": {"disk_mb": wanted}} if wanted else {}


COMPONENT = Component(version="1", create=AllottedDisk, parameters=RecipeParameters)
