"""YAML by the core schema of version 1.2, and only what JSON can hold.

PyYAML follows 1.1, where `on`, `no` and `off` are truth values, `1:30` is ninety, `010` is eight
and `1e-5` is a string. Source of the rules: https://yaml.org/spec/1.2.2/#103-core-schema.
Stricter than the schema in four points: keys given twice, keys that are no strings, numbers with a
leading zero (8 to some readers, 10 to others) and `{a:1}` (the key "a:1", as YAML reads it) are
refused.
"""

import math
import re
from typing import Any, ClassVar

import yaml

from agentcompass.components.contracts.errors import RequestError

_INTEGER = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_NOT_FINITE = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"


def read_yaml(text: str, field: str) -> Any:
    """The one document in `text`; RequestError names the line and column of a mistake."""
    try:
        return yaml.load(text, Loader=_CoreLoader)  # noqa: S506 - builds plain values only
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = (error.problem or "cannot be read").replace("\n", " ")
        raise RequestError(field, f"not valid YAML{where}: {problem}") from None
    except yaml.YAMLError as error:
        raise RequestError(field, f"not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise RequestError(field, "is nested too deeply") from None


class _CoreLoader(yaml.SafeLoader):
    # Tables of its own, so that nothing of YAML 1.1 (dates, sets, binary, merge keys) is left.
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}

    def mapping(self, node: yaml.Node) -> dict[str, Any]:
        assert isinstance(node, yaml.MappingNode)
        value: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _refusal(f"the key {key!r} is no string; put it in quotes", key_node)
            if node.flow_style and _forgets_blank(key_node, value_node):
                raise _refusal(f"{key!r} has no value; put a blank after the colon", key_node)
            if key in value:
                raise _refusal(f"key {key!r} is given twice", key_node)
            value[key] = self.construct_object(value_node, deep=True)
        return value

    def sequence(self, node: yaml.Node) -> list[Any]:
        assert isinstance(node, yaml.SequenceNode)
        return [self.construct_object(item, deep=True) for item in node.value]

    def text(self, node: yaml.Node) -> str:
        return str(node.value)

    def null(self, node: yaml.Node) -> None:
        return None

    def boolean(self, node: yaml.Node) -> bool:
        return str(node.value).lower() == "true"

    def integer(self, node: yaml.Node) -> int:
        text = str(node.value)
        if re.fullmatch(r"[-+]?0[0-9]+", text):
            raise _refusal(f"{text} has a leading zero; put it in quotes if it is a name", node)
        if len(text) > 40:
            raise _refusal(f"the number {text[:20]}… is too large", node)
        try:
            return int(text, 0)
        except ValueError:
            raise _refusal(f"{text[:40]!r} is not an integer", node) from None

    def number(self, node: yaml.Node) -> float:
        try:
            value = float(node.value)  # `.inf` and `.nan` are none of Python's
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise _refusal(f"{node.value!r} is not a finite number", node)
        return value

    def unknown(self, node: yaml.Node) -> Any:
        raise _refusal(f"the tag {node.tag} is not known here", node)


def _forgets_blank(key: yaml.Node, value: yaml.Node) -> bool:
    """`{a:1}`, which YAML reads as the key "a:1" without a value."""
    plain = isinstance(key, yaml.ScalarNode) and key.style is None and ":" in key.value
    return plain and isinstance(value, yaml.ScalarNode) and value.style is None and not value.value


def _refusal(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _register() -> None:
    for tag, pattern, first in (
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", _INTEGER, list("-+0123456789")),
        ("float", f"{_FLOAT}|{_NOT_FINITE}", list("-+0123456789.")),
    ):
        _CoreLoader.add_implicit_resolver(
            f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), first
        )
    for tag, build in (
        ("null", _CoreLoader.null),
        ("bool", _CoreLoader.boolean),
        ("int", _CoreLoader.integer),
        ("float", _CoreLoader.number),
        ("str", _CoreLoader.text),
        ("seq", _CoreLoader.sequence),
        ("map", _CoreLoader.mapping),
    ):
        _CoreLoader.add_constructor(f"tag:yaml.org,2002:{tag}", build)
    _CoreLoader.add_constructor(None, _CoreLoader.unknown)


_register()
