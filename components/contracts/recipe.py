"""A recipe: what a task needs to run in a particular place (an image, a workdir, resources)."""

from collections.abc import Mapping
from typing import Any, Protocol

from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.task import Task


class Match(Frozen):
    """For which plans a recipe is meant. Empty: any. More fields set: more specific."""

    benchmarks: tuple[str, ...] = ()
    harnesses: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Model names as the user gives them."""

    def fits(self, context: "RecipeContext") -> bool:
        wanted = (
            (self.benchmarks, context.benchmark),
            (self.harnesses, context.harness),
            (self.environments, context.environment),
            (self.models, context.model),
        )
        return all(not names or name in names for names, name in wanted)

    @property
    def specificity(self) -> int:
        return sum(
            bool(names)
            for names in (self.benchmarks, self.harnesses, self.environments, self.models)
        )


class RecipeContext(Frozen):
    """The plan a recipe looks at."""

    benchmark: str
    benchmark_params: Mapping[str, Any]
    """Complete."""
    harness: str
    environment: str
    model: str


class Recipe(Protocol):
    """Pure: the same task and context give the same changes."""

    match: Match

    def adapt(self, task: Task, context: RecipeContext) -> Mapping[str, Any]:
        """Changes to the task's Requirements, by field (`{"image": …, "workdir": …}`); empty:
        nothing to do for this task. What the user set wins over them."""
        ...


class RecipeParameters(Frozen):
    """Recipes take no parameters."""
