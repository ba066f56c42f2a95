"""An example: tells the programs in the sandboxes of `quickstart` that they are measured."""

from collections.abc import Mapping
from typing import Any

from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.recipe import Match, RecipeContext, RecipeParameters
from agentcompass.components.contracts.task import Task


class Example:
    match = Match(benchmarks=("quickstart",))
    """Also `harnesses`, `environments`, `models`: the more are set, the later it applies."""

    def __init__(self, parameters: RecipeParameters) -> None:
        """Recipes take none."""

    def adapt(self, task: Task, context: RecipeContext) -> Mapping[str, Any]:
        """What to change of the task's requirements: `image`, `workdir`, `commands`, `env`,
        `resources`, `network`, … What the user set stands. Pure: no files, no network, no clock."""
        return {"env": {"MEASURED_BY": "agentcompass"}}


COMPONENT = Component(version="1", create=Example, parameters=RecipeParameters)
