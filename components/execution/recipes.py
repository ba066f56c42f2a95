"""Which recipes a plan uses, and in which order."""

from collections.abc import Iterator
from typing import cast

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.recipe import Recipe, RecipeContext
from agentcompass.components.contracts.run import PlannedComponent, PlannedRecipe, RunRequest
from agentcompass.components.registry import registry


def matching_recipes(request: RunRequest, benchmark: PlannedComponent) -> tuple[PlannedRecipe, ...]:
    """Every recipe made for this plan, or those of them the user named; most specific last.

    A recipe that is asked for and is broken or does not match is refused: it would silently do
    nothing. One that is broken and not asked for is left out (see `broken_recipes`).
    """
    context = recipe_context(request, benchmark)
    directories = request.runtime.recipe_dirs
    asked_for = request.recipes
    found: dict[str, tuple[int, str, PlannedRecipe]] = {}
    for name in asked_for if asked_for is not None else registry.listings("recipes", directories):
        try:
            planned, recipe = _loaded(request, name)
        except RequestError:
            if asked_for is not None:
                raise
            continue
        if recipe.match.fits(context):
            found[name] = (recipe.match.specificity, name, planned)
        elif asked_for is not None:
            raise RequestError("recipe", f"{name} is not made for this run ({recipe.match!r})")
    return tuple(planned for _, _, planned in sorted(found.values(), key=lambda item: item[:2]))


def broken_recipes(request: RunRequest) -> Iterator[str]:
    """Why recipes that nobody asked for are left out, one line each."""
    if request.recipes is not None:
        return
    for name in registry.listings("recipes", request.runtime.recipe_dirs):
        try:
            _loaded(request, name)
        except RequestError as error:
            yield f"{error}; it is left out"


def recipe_context(request: RunRequest, benchmark: PlannedComponent) -> RecipeContext:
    return RecipeContext(
        benchmark=request.benchmark.id,
        benchmark_params=benchmark.params,
        harness=request.harness.id,
        environment=request.environment.id,
        model=request.model.id,
    )


def load_recipe(request: RunRequest, planned: PlannedRecipe) -> Recipe:
    """The recipe as it was planned; RequestError if its file was edited since."""
    now, recipe = _loaded(request, planned.id)
    if now.version != planned.version:
        raise RequestError("recipe", f"{planned.id} was edited while the run started", "try again")
    return recipe


def _loaded(request: RunRequest, name: str) -> tuple[PlannedRecipe, Recipe]:
    directories = request.runtime.recipe_dirs
    component = registry.load("recipes", name, directories)
    recipe = registry.create("recipes", name, component, component.parameters())
    planned = PlannedRecipe(
        id=name,
        version=component.version,
        origin=registry.find("recipes", name, directories).origin,
    )
    return planned, cast(Recipe, recipe)
