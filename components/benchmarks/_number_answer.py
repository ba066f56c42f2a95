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
_MARKED = re.compile(r"^[ \t>-]*#{4}[ \t]*(?P<rest>.+)$", re.MULTILINE)
_LEAD = re.compile(
    r"(?:(?:the\s+)?(?:final\s+)?answer(?:\s+is\b|\s*[:=])|<(?:[a-z]+>)?|[^\w.+<-])*",
    re.IGNORECASE,
)
"""What may stand before the number of a marked line."""
_SPOKEN = re.compile(
    r"\banswer\b(?:[ \t}]*[:=]"
    r"|(?:[ \t]+(?:to|for|of)\b[^\n.:=\d]{0,80}?|[ \t]+(?:should|must|would))?"
    r"[ \t]+(?:is|be)\b[ \t]*[:=]?)(?P<rest>[^\n]*)"
    r"|^[ \t#>]*(?:final[ \t]+)?answer[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""`answer is`, `answer:`, `answer =`, or the word as a heading. "To answer this" is none."""
_HEADING = re.compile(r"\s*[.):]\s*\w")
"""Behind the number of `2. Add` and `3) Multiply`."""
MAX_POINTERS = 20
"""So many of the last boxes and phrases are looked into."""
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
_TIMES = re.compile(r"(?<=\d)[ \t]*\*[ \t]*(?=[$\d])")
_THIN_SPACES = "\N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}"
_GROUPED = re.compile(rf"(?<![\d.,])\d{{1,3}}(?:[{_THIN_SPACES}]\d{{3}})+(?!\d)")
_WIDELY_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?!\d)")
"""Only where nothing but the answer stands: in prose these may be two numbers."""
_LATEX_SPACING = re.compile(r"\\[,!;: ]|\{,\}|\\(?=[$%])")
_REMARK = re.compile(r"(?<=\w)\s*\([^()]*\)")
_MINUS = re.compile(r"^\s*-\s+(?=[$€£]?[\d.])")
_OPERATION = re.compile(r"\s*[-+×÷/·]\s*[$€£(]?\d")


def final_number(answer: str) -> Decimal | None:
    """The number an answer settles on.

    In order of preference: the last of the lines `#### N` and of `\\boxed{N}`, whichever comes
    later; what follows the last "answer is" or "answer:", there or on the next line; else the
    last number of all. `$`, `%`, thousands separators, a trailing dot and other minus signs do
    not matter. A fraction is not a number here: an answer that settles on one has none.
    """
    text = _TIMES.sub("×", answer[-MAX_CHARACTERS:]).translate(_SPELLINGS)  # noqa: RUF001
    text = _GROUPED.sub(_joined, _LATEX_SPACING.sub(_respelled, text))
    pointed = max(_marked(text), _boxed(text), key=lambda found: found[0])[1]
    found = pointed or _spoken(text) or _last(text)
    return _value(found) if found else None


def _respelled(match: re.Match[str]) -> str:
    return "," if match[0] == "{,}" else ""


def _joined(match: re.Match[str]) -> str:
    return re.sub(r"\s", "", match[0])


def _marked(text: str) -> tuple[int, re.Match[str] | None]:
    """Where, and the number: `#### 18 dollars`, not the headings `#### 2. Add`, `#### Step 3`."""
    for line in reversed(list(_MARKED.finditer(text))):
        rest = _begun(line["rest"])
        if rest is not None:
            return line.end(), _settled(_WIDELY_GROUPED.sub(_joined, rest))
    return -1, None


def _begun(line: str) -> str | None:
    """The line from its number on, if it begins with one that is not a heading's."""
    lead = _LEAD.match(line)
    rest = _MINUS.sub("-", line[lead.end() if lead else 0 :])
    number = _NUMBER.match(rest)
    return rest if number and not _HEADING.match(rest[number.end() :]) else None


def _boxed(text: str) -> tuple[int, re.Match[str] | None]:
    for box in reversed(list(_BOXED.finditer(text))[-MAX_POINTERS:]):
        if number := _settled(_WIDELY_GROUPED.sub(_joined, _braced(text[box.end() :]))):
            return box.start(), number
    return -1, None


def _braced(text: str) -> str:
    depth = 1
    for position, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if not depth:
            return text[:position]
    return text


def _spoken(text: str) -> re.Match[str] | None:
    for phrase in reversed(list(_SPOKEN.finditer(text))[-MAX_POINTERS:]):
        rest = phrase["rest"] or ""
        told = _settled(rest) if re.search(r"\w", rest) else _below(text[phrase.end() :])
        if told:
            return told
    return None


def _below(text: str) -> re.Match[str] | None:
    """On the next line that says anything, if it is the answer by itself; else the last number."""
    line = next((line for line in text.split("\n") if re.search(r"\w", line)), "")
    rest = _begun(re.sub(r"^[ \t>]*(- )?", "", line))
    numbers = list(_numbers(rest or ""))
    return numbers[0] if len(numbers) == 1 else _last(text)


def _settled(text: str) -> re.Match[str] | None:
    """The number after the last `=`, else the first one. Of `18 = 9 * 2` it is the 18."""
    before, _, after = _REMARK.sub("", text).rpartition("=")
    found = next(_numbers(_MINUS.sub("-", after)), None)
    if before and found and _OPERATION.match(found.string, found.end()):
        alone = list(_numbers(before))
        found = alone[0] if len(alone) == 1 else found
    return found or next(_numbers(text), None)


def _last(text: str) -> re.Match[str] | None:
    return next(reversed(list(_numbers(text))), None)


def _numbers(text: str) -> Iterator[re.Match[str]]:
    return _NUMBER.finditer(text)


def _value(match: re.Match[str]) -> Decimal | None:
    if match["fraction"]:
        return None
    value = Decimal(match["value"].replace(",", ""))
    return -value if "-" in (match["sign"], match["late_sign"]) else value
