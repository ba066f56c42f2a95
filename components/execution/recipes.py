"""Which recipes a plan uses, and in which order."""

from typing import cast

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.recipe import Recipe, RecipeContext
from agentcompass.components.contracts.run import PlannedComponent, PlannedRecipe, RunRequest
from agentcompass.components.registry import registry


def matching_recipes(request: RunRequest, benchmark: PlannedComponent) -> tuple[PlannedRecipe, ...]:
    """Every recipe made for this plan, or those of them the user named; most specific last.

    A recipe that is asked for and does not match is refused: it would silently do nothing.
    """
    context = recipe_context(request, benchmark)
    asked_for = request.recipes
    found = []
    for name in asked_for if asked_for is not None else registry.listings("recipes"):
        recipe = load_recipe(name)
        if recipe.match.fits(context):
            found.append((recipe.match.specificity, name))
        elif asked_for is not None:
            raise RequestError("recipe", f"{name} is not made for this run ({recipe.match!r})")
    return tuple(
        PlannedRecipe(
            id=name,
            version=registry.load("recipes", name).version,
            origin=registry.find("recipes", name).origin,
        )
        for _, name in sorted(set(found))
    )


def recipe_context(request: RunRequest, benchmark: PlannedComponent) -> RecipeContext:
    return RecipeContext(
        benchmark=request.benchmark.id,
        benchmark_params=benchmark.params,
        harness=request.harness.id,
        environment=request.environment.id,
        model=request.model.id,
    )


def load_recipe(name: str) -> Recipe:
    component = registry.load("recipes", name)
    return cast(Recipe, component.create(component.parameters()))
