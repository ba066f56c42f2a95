"""What a model found wrong with its input, without pydantic's own words around ours."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_OURS = frozenset({"value_error", "assertion_error"})
"""Kinds of problems whose words a validator of ours chose; pydantic sets "Value error, " before."""


def first_problem(error: "ValidationError", top: str = "") -> str:
    """Of the first: where it is, a colon, what is wrong. `top` names the document as a whole."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or top
    return f"{place}: {said(first)}" if place else said(first)


def said(problem: "ErrorDetails") -> str:
    """What is wrong, in the validator's own words or else in pydantic's."""
    return own_words(problem) or problem["msg"]


def own_words(problem: "ErrorDetails") -> str | None:
    """What the validator of ours said; None if the problem is one that pydantic found."""
    if problem["type"] not in _OURS:
        return None
    return str(problem.get("ctx", {}).get("error", "")) or None
