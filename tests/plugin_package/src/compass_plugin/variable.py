"""A variable for every task that runs in this package's environment."""

from collections.abc import Mapping
from typing import Any

from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.recipe import Match, RecipeContext, RecipeParameters
from agentcompass.components.contracts.task import Task


class Variable:
    match = Match(environments=("plug_place",))

    def __init__(self, parameters: RecipeParameters) -> None:
        """Recipes take none."""

    def adapt(self, task: Task, context: RecipeContext) -> Mapping[str, Any]:
        return {"env": {"FROM_RECIPE": "recipe"}}


COMPONENT = Component(version="1", create=Variable, parameters=RecipeParameters)
