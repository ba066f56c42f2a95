"""It matches the runs it is made for, and changes what a sandbox can have."""

from agentcompass.components.contracts.recipe import RecipeContext, RecipeParameters
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.task import Task
from agentcompass.components.templates.recipe import COMPONENT

RECIPE = COMPONENT.create(RecipeParameters())


def context(benchmark: str = "quickstart") -> RecipeContext:
    return RecipeContext(
        benchmark=benchmark, benchmark_params={}, harness="h", environment="e", model="m"
    )


def test_it_is_made_for_quickstart_alone() -> None:
    assert RECIPE.match.fits(context())
    assert not RECIPE.match.fits(context("gsm8k"))


def test_its_changes_are_requirements() -> None:
    changes = RECIPE.adapt(Task(id="t", instruction="Do it."), context())
    assert Requirements().over(**changes).env == {"MEASURED_BY": "agentcompass"}
