"""What a task's sandbox must be: the task's own wishes, then recipes, then what the user set. Pure.

A field the user set stands, whatever task and recipes say. Mappings (`env`, `files`, `resources`)
merge by key; everything else replaces.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.recipe import Recipe, RecipeContext
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.task import Task

_BY_KEY = ("env", "run_env", "evaluation_env", "files", "resources")


class Adaptation(NamedTuple):
    """What one recipe changed for one task, user's wins left out."""

    recipe_id: str
    changes: Mapping[str, Any]


def requirements_of(
    task: Task,
    parameters: EnvironmentParameters,
    recipes: Iterable[tuple[str, Recipe]] = (),
    context: RecipeContext | None = None,
) -> tuple[Requirements, tuple[Adaptation, ...]]:
    """Complete requirements and how recipes came into them.

    `recipes`: in the order they apply. Raises RequestError when two of them disagree.
    """
    wanted = _set_by_user(parameters)
    values: dict[str, Any] = dict(task.requirements)
    adaptations: list[Adaptation] = []
    written: dict[tuple[str, str], Any] = {}
    for recipe_id, recipe in recipes if context else ():
        changes = dict(recipe.adapt(task, context)) if context else {}
        unknown = sorted(set(changes) - set(Requirements.model_fields))
        if unknown:
            raise RequestError("recipe", f"{recipe_id} changes {unknown[0]!r}, which no task has")
        kept = dict(_not_overruled(changes, wanted))
        for field, value in kept.items():
            _no_conflict(task, field, value, recipe_id, written)
            values[field] = _over(field, values[field], value)
        if kept:
            adaptations.append(Adaptation(recipe_id, kept))
    for field, value in wanted.items():
        values[field] = _over(field, values[field], value)
    return Requirements.model_validate(values), tuple(adaptations)


def _set_by_user(parameters: EnvironmentParameters) -> dict[str, Any]:
    """Fields of Requirements → the user's values."""
    setup = parameters.setup
    values: dict[str, Any] = {
        name: value
        for name in ("commands", "workdir", "platform", "files", "build_timeout_seconds")
        if (value := getattr(setup, name)) is not None
    }
    if setup.image is not None or setup.build is not None:
        values |= {"image": setup.image, "build": setup.build}
    if limits := parameters.resources.model_dump(exclude_none=True):
        values["resources"] = limits
    if parameters.network is not None:
        values["network"] = parameters.network
    if parameters.user is not None:
        values["user"] = parameters.user
    for name in ("env", "run_env", "evaluation_env"):
        if given := getattr(parameters, name):
            values[name] = given
    return values


def _not_overruled(
    changes: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    for field, value in changes.items():
        if field in _BY_KEY:
            value = {k: v for k, v in dict(value).items() if k not in wanted.get(field, {})}
        elif field in wanted:
            continue
        yield field, value


def _over(field: str, below: Any, above: Any) -> Any:
    if field in _BY_KEY:
        return {**dict(below), **{k: v for k, v in dict(above).items() if v is not None}}
    return above


def _no_conflict(
    task: Task, field: str, value: Any, recipe_id: str, written: dict[tuple[str, str], Any]
) -> None:
    """Remember who wrote what; mappings are compared key by key."""
    by_key = field in _BY_KEY
    for key, item in dict(value).items() if by_key else [("", value)]:
        if item is None and by_key:
            continue
        other_id, other = written.setdefault((field, key), (recipe_id, item))
        if other != item:
            name = f"{field}.{key}" if key else field
            raise RequestError(
                "recipe",
                f"{other_id} and {recipe_id} disagree on {name} of task {task.id!r}: "
                f"{other!r} or {item!r}",
                f"name one of them with --recipe, or set {name} in --env-params",
            )
