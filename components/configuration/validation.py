"""Turn what a user wrote into a parameter model, or into one line that says what is wrong."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agentcompass.components.configuration.showing import below_variables, may_hold_secret
from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.invalid import own_words

_MEMBERS = frozenset({"bool", "constrained-str", "dict", "float", "int", "none", "str", "tuple"})
"""Names of union members stand in pydantic's locations; a user never wrote them."""

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], values: Mapping[str, Any], field: str) -> M:
    """An instance of `model`; RequestError names `field.path`, the problem and the way out."""
    try:
        # As JSON and strictly: `true` is no number and "3" no integer, lists may become tuples.
        return model.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        first = _explain(model, problems[0], field)
        if len(problems) > 1:
            others = ", ".join(_path(field, p["loc"]) for p in problems[1:6])
            first = RequestError(
                first.field, first.problem, f"{first.hint} (also wrong: {others})".strip()
            )
        raise first from None


def _explain(model: type[BaseModel], problem: ErrorDetails, field: str) -> RequestError:
    path = _path(field, problem["loc"])
    if problem["type"] == "extra_forbidden":
        parent = _model_at(model, problem["loc"][:-1])
        known = parent.model_fields if parent else {}
        return RequestError(path, "unknown key", nearest(str(problem["loc"][-1]), known))
    given = repr(problem["input"])
    shown = given if len(given) <= 60 else given[:57] + "…"
    places = [*field.split("."), *map(str, problem["loc"])]
    hidden = below_variables(places) or may_hold_secret(f"{places[-1]}: {given}")
    message = own_words(problem)
    if hidden:
        message = (message or problem["msg"]).replace(given, "it")
        return RequestError(path, f"{_lower(message)} (not shown: it may hold a secret)")
    if message:
        return RequestError(path, message if given in message else f"{message} (given: {shown})")
    return RequestError(path, f"{_lower(problem['msg'])}, not {shown}")


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _path(field: str, location: tuple[int | str, ...]) -> str:
    parts = [str(p) for p in location if isinstance(p, int) or p not in _MEMBERS]
    return ".".join([field, *(p for p in parts if "[" not in p)])


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel] | None:
    current: Any = model
    for part in location:
        if isinstance(part, int):  # a member of a list: the model is the list's
            continue
        info = current.model_fields.get(part) if hasattr(current, "model_fields") else None
        if info is None:
            return None
        candidates = [info.annotation, *getattr(info.annotation, "__args__", ())]
        current = next((c for c in candidates if hasattr(c, "model_fields")), None)
    return current if isinstance(current, type) else None
