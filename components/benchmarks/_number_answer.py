"""Find the final number in a worked answer, and compare numbers by value."""

import re
from collections.abc import Iterator
from decimal import Decimal

MAX_CHARACTERS = 200_000
"""Of an answer, from its end: the rest is not read."""

_VALUE = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>[-+]?)[$€£]?(?P<late_sign>-?)(?P<value>{_VALUE})(?P<fraction>/\d+)?"
)
_MARKED = re.compile(r"^[ \t]*#{4}[ \t]*(?P<rest>.+)$", re.MULTILINE)
_SPOKEN = re.compile(r"\b(?:final\s+)?answer\b(?:\s+is)?\s*[:=]?(?P<rest>[^\n]*)", re.IGNORECASE)
MAX_BOXES = 20
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")

_SPELLINGS = str.maketrans(
    {
        "\N{MINUS SIGN}": "-",
        "\N{HYPHEN}": "-",
        "\N{NON-BREAKING HYPHEN}": "-",
        "\N{EN DASH}": "-",
        "\N{FULLWIDTH HYPHEN-MINUS}": "-",
        "\N{FULLWIDTH DOLLAR SIGN}": "$",
        "\N{FULLWIDTH COMMA}": ",",
        "\N{FULLWIDTH FULL STOP}": ".",
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
        "*": None,  # emphasis
        "`": None,
    }
)
_LATEX_SPACING = re.compile(
    r"\\[,!;: ]|\{,\}|\\(?=[$%])|(?<=\d)[\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}](?=\d{3})"
)


def final_number(answer: str) -> Decimal | None:
    """The number an answer settles on.

    In order of preference the last of each: a line `#### N`; `\\boxed{N}`; what follows
    "final answer" or "answer"; else the last number of all. `$`, `%`, thousands separators, a
    trailing dot and other minus signs do not matter. A fraction is not a number here: an answer
    that settles on one has none.
    """
    text = _LATEX_SPACING.sub(_respelled, answer[-MAX_CHARACTERS:].translate(_SPELLINGS))
    for found in (_marked(text), _boxed(text), _spoken(text)):
        if found is not None:
            return _value(found)
    numbers = list(_numbers(text))
    return _value(numbers[-1]) if numbers else None


def _respelled(match: re.Match[str]) -> str:
    return "," if match[0] == "{,}" else ""


def _marked(text: str) -> re.Match[str] | None:
    """`#### 18 dollars`, but not the heading `#### 2. Add` or `#### Step 3`."""
    found = None
    for line in _MARKED.finditer(text):
        number = _NUMBER.match(line["rest"].removeprefix("Answer:").strip())
        if number and not re.match(r"\s*[.):]\s*\w", number.string[number.end() :]):
            found = number
    return found


def _boxed(text: str) -> re.Match[str] | None:
    for box in reversed(list(_BOXED.finditer(text))[-MAX_BOXES:]):
        if number := _settled(_braced(text[box.end() :])):
            return number
    return None


def _braced(text: str) -> str:
    depth = 1
    for position, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if not depth:
            return text[:position]
    return text


def _spoken(text: str) -> re.Match[str] | None:
    found = None
    for phrase in _SPOKEN.finditer(text):
        if number := _settled(phrase["rest"]):
            found = number
    return found


def _settled(text: str) -> re.Match[str] | None:
    """The number after the last `=`, else the first one."""
    after_equals = text.rpartition("=")[2]
    return next(_numbers(after_equals), None) or next(_numbers(text), None)


def _numbers(text: str) -> Iterator[re.Match[str]]:
    return _NUMBER.finditer(text)


def _value(match: re.Match[str]) -> Decimal | None:
    if match["fraction"]:
        return None
    value = Decimal(match["value"].replace(",", ""))
    return -value if "-" in (match["sign"], match["late_sign"]) else value
