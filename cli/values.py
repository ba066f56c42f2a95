"""The kinds of values the options of `run` take; a wrong one is refused naming its option."""

import re
from typing import Any

import click

from agentcompass.components.configuration.json_value import read_object, read_value
from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import RequestError

LARGEST = 10**9


class TextValue(click.ParamType):  # type: ignore[type-arg]
    """Text that a file can hold; with `empty=False` not blank (an unset "$VARIABLE")."""

    name = "text"

    def __init__(self, *, empty: bool = True) -> None:
        self.empty = empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not self.empty and not text.strip():
            raise RequestError(
                _field(param), "is empty", "if it comes from a variable, that one is not set"
            )
        if not text.isprintable() or text != text.strip():
            # surrogates of bytes that are not UTF-8 are not printable either
            raise RequestError(
                _field(param), "holds a line break, an outer blank or another invisible character"
            )
        return text


class WholeNumber(click.ParamType):  # type: ignore[type-arg]
    """Digits, as people write them: no 2.5, 1e3 or 1_000."""

    name = "int"

    def __init__(self, *, least: int) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not re.fullmatch(r"[+-]?[0-9]{1,30}", text, re.ASCII):
            raise RequestError(_field(param), f"{text!r} is not a whole number", self._hint())
        number = int(text)
        if number < self.least:
            raise RequestError(_field(param), f"{text} is too small", self._hint())
        if number > LARGEST:
            raise RequestError(_field(param), f"{text} is too large", f"at most {LARGEST}")
        return number

    def _hint(self) -> str:
        return f"it is {self.least} or more"


class Word(click.ParamType):  # type: ignore[type-arg]
    """One of a few words, in upper or lower case."""

    name = "word"

    def __init__(self, *words: str) -> None:
        self.words = words

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "[" + "|".join(self.words) + "]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        for word in self.words:
            if str(value).lower() == word.lower():
                return word
        raise RequestError(
            _field(param),
            f"{value!r} is none of {', '.join(self.words)}",
            nearest(value, self.words),
        )


class JsonObject(click.ParamType):  # type: ignore[type-arg]
    """A JSON object, or `@file.json` / `@file.yaml`."""

    name = "json"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        return read_object(value, _field(param))


class JsonList(click.ParamType):  # type: ignore[type-arg]
    """A JSON list, or null for none; in a file, too."""

    name = "json list"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        members = read_value(value, _field(param))
        if not isinstance(members, (list, type(None))):
            raise RequestError(_field(param), f"{value[:60]!r} is not a list", 'write ["…"]')
        return tuple(members or ())


class PerProvider(click.ParamType):  # type: ignore[type-arg]
    """`provider=number`, 0 for none."""

    name = "provider=number"

    def __init__(self, kind: type[int] | type[float]) -> None:
        self._kind = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        from agentcompass.components.registry import registry

        provider, equals, text = value.partition("=")
        if not equals:
            raise RequestError(_field(param), f"{value!r} has no '='", "write PROVIDER=NUMBER")
        known = registry.listings("environments")
        if provider not in known:
            raise RequestError(_field(param), f"no provider {provider!r}", nearest(provider, known))
        try:  # digits, as people write them: no 1_0, 1e3 or nan
            number = self._kind(text if re.fullmatch(r"\+?[0-9]*\.?[0-9]+", text) else "")
        except ValueError:
            number = -1
        if not 0 <= number < 1e6:
            what = "a whole number" if self._kind is int else "a number"
            raise RequestError(_field(param), f"{text!r} is not {what} of 0 or more")
        return provider, number


def together(
    ctx: click.Context, param: click.Parameter, pairs: tuple[tuple[str, float], ...]
) -> dict[str, float] | None:
    """The repeated option as one mapping; None if it was not given."""
    given = dict(pairs)
    if len(given) < len(pairs):
        raise RequestError(_field(param), "names a provider twice", "keep one")
    return given or None


class Protocols(click.ParamType):  # type: ignore[type-arg]
    """A protocol's name, or a JSON list of names in order of preference; in a file, too."""

    name = "protocol"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        field = _field(param)
        names = read_value(value, field) if value.lstrip().startswith(("[", "@")) else [value]
        listed = isinstance(names, list) and names
        if not listed or not all(isinstance(name, str) and name.strip() for name in names):
            raise RequestError(
                field,
                "is empty" if not str(value).strip() else f"{value[:60]!r} does not name protocols",
                'write a name or a JSON list of names, ["openai-chat"]',
            )
        if len(set(names)) < len(names):
            raise RequestError(field, f"{value[:60]!r} names a protocol twice", "keep one")
        return tuple(names)


def _field(param: click.Parameter | None) -> str:
    """The option without its dashes, or the argument as the usage spells it."""
    if isinstance(param, click.Argument):
        return param.human_readable_name
    return param.opts[-1].lstrip("-") if param is not None else "value"
