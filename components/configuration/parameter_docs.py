"""What a parameter model says about itself: one row a parameter, for `config docs` and the docs."""

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python


@dataclass(frozen=True)
class ParameterDoc:
    name: str
    """Dotted below nested objects; `[]` stands for each member of a list."""
    type: str
    """In words: `list of strings or null`, `integer ≥ 1`."""
    default: str
    """As JSON; `required` if there is none, `required in {allow: …}` if only that choice has it."""
    meaning: str
    """The docstring under the field, on one line."""


def parameter_docs(model: type[BaseModel]) -> tuple[ParameterDoc, ...]:
    """Every parameter of a model, in its order; nested models follow their own row.

    A parameter with one legal value and no choice is none.
    """
    return tuple(_rows(model, prefix="", above=()))


def _rows(
    model: type[BaseModel], prefix: str, above: tuple[type[BaseModel], ...], choice: str = ""
) -> Iterator[ParameterDoc]:
    """`choice`: how a reader knows this model among others that may stand in the same place."""
    for name, field in model.model_fields.items():
        default = _default(field)
        if _has_one_value(field.annotation) and default != REQUIRED:
            continue
        path = f"{prefix}{field.alias or name}"
        yield ParameterDoc(
            name=path,
            type=_with_constraints(_words(field.annotation), field.metadata),
            default=f"{default} in {choice}" if choice and default == REQUIRED else default,
            meaning=" ".join((field.description or "").split()),
        )
        for inner, suffix, chosen in _inner_models(field.annotation, ""):
            if inner not in (*above, model):  # a model that contains itself is shown once
                yield from _rows(inner, f"{path}{suffix}.", (*above, model), chosen)


REQUIRED = "required"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return REQUIRED
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return REQUIRED
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(to_jsonable_python(value), ensure_ascii=False)


def _has_one_value(annotation: Any) -> bool:
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


_SCALARS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    bytes: "bytes",
    NoneType: "null",
    Any: "any value",
    object: "any value",
}


def _words(annotation: Any) -> str:
    """A type in a reader's words."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _with_constraints(_words(arguments[0]), arguments[1:])
    if origin is Literal:
        return _one_of(arguments)
    if origin in (Union, UnionType):
        # null last, whatever the order in the code
        members = sorted(arguments, key=lambda member: member is NoneType)
        names = _choices(annotation)
        return " or ".join(dict.fromkeys(names.get(member) or _words(member) for member in members))
    collection = origin or annotation
    if not isinstance(collection, type):
        return getattr(annotation, "__name__", str(annotation))
    if issubclass(collection, Enum):
        return _one_of([member.value for member in collection])
    if issubclass(collection, BaseModel):
        return "object"
    if issubclass(collection, PurePath):
        return "path"
    if issubclass(collection, tuple) and arguments and arguments[-1] is not Ellipsis:
        return "list of [" + ", ".join(map(_words, arguments)) + "]"
    if issubclass(collection, Mapping):
        values = _plural(arguments[1]) if len(arguments) == 2 else "any values"
        return "object" if values == "any values" else f"object of {values}"
    if issubclass(collection, (Sequence, Set)):
        return f"list of {_plural(arguments[0])}" if arguments else "list"
    return collection.__name__.lower()


def _one_of(values: Sequence[Any]) -> str:
    return " or ".join(json.dumps(value, ensure_ascii=False) for value in values)


def _plural(annotation: Any) -> str:
    words = _words(annotation)
    if words == "any value":
        return "any values"
    first, space, rest = words.partition(" ")
    simple = first in ("string", "integer", "number", "boolean", "object", "list", "path")
    if not simple or " or " in words:
        return f"({words})"
    return f"{first}s{space}{rest}"


def _with_constraints(words: str, metadata: Sequence[Any]) -> str:
    """`integer ≥ 1`; the constraints of pydantic's Field and annotated_types."""
    marks: list[str] = []
    for item in _flat(metadata):
        match item:
            case Ge():
                marks.append(f"≥ {item.ge}")
            case Gt():
                marks.append(f"> {item.gt}")
            case Le():
                marks.append(f"≤ {item.le}")
            case Lt():
                marks.append(f"< {item.lt}")
            case MultipleOf():
                marks.append(f"in steps of {item.multiple_of}")
            case MinLen():
                marks.append("not empty" if item.min_length == 1 else f"{item.min_length} or more")
            case MaxLen():
                marks.append(f"at most {item.max_length}")
            case _ if pattern := getattr(item, "pattern", None):
                marks.append(f"matching {pattern}")
            case _:
                pass  # validators and serializers say nothing a reader could use
    return f"{words} {', '.join(marks)}" if marks else words


def _flat(metadata: Sequence[Any]) -> Iterator[Any]:
    for item in metadata:
        if isinstance(item, FieldInfo):  # Annotated[int, Field(ge=1)] inside a larger type
            yield from item.metadata
        else:
            yield item


def _inner_models(
    annotation: Any, suffix: str, choice: str = ""
) -> Iterator[tuple[type[BaseModel], str, str]]:
    """The models inside a type, with what stands between the parameter and their fields, and
    what tells each from others in its place."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, suffix, choice
        return
    origin = get_origin(annotation)
    inside = suffix
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inside = f"{suffix}.<name>"
    elif isinstance(origin, type) and issubclass(origin, (Sequence, Set)):
        inside = f"{suffix}[]"
    names = _choices(annotation)
    for argument in get_args(annotation):
        yield from _inner_models(argument, inside, names.get(argument, choice))


def _choices(annotation: Any) -> dict[Any, str]:
    """Of a union: its models, as `{allow: …}`, if there is a choice between them and others."""
    members = [one for one in get_args(annotation) if one is not NoneType]
    if get_origin(annotation) not in (Union, UnionType) or len(members) < 2:
        return {}
    return {
        one: _shape(one) for one in members if isinstance(one, type) and issubclass(one, BaseModel)
    }


def _shape(model: type[BaseModel]) -> str:
    """The keys that must be there, of which a reader knows the model."""
    fields = model.model_fields.items()
    needed = [field.alias or name for name, field in fields if field.is_required()]
    return "{" + ", ".join(f"{name}: …" for name in needed) + "}" if needed else "object"
