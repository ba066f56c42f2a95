"""Find a short answer in a final message, and compare it by what it says."""

import re
import unicodedata
from decimal import Decimal

_MARKED = re.compile(r"^[\s>*_`#-]*ANSWER\s*[*_`]*\s*[:=]\s*(?P<answer>.*)$", re.IGNORECASE)

_UNITS = {
    **dict.fromkeys(("\N{EURO SIGN}", "eur", "euro", "euros"), "eur"),
    **dict.fromkeys(("$", "us$", "usd"), "usd"),
    **dict.fromkeys(("\N{POUND SIGN}", "gbp"), "gbp"),
    **dict.fromkeys(("%", "percent"), "%"),
}
_UNIT = rf"\(?({'|'.join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))})\)?"
_AMOUNT = re.compile(
    rf"([-+]?) ?(?:{_UNIT} ?)?([-+]?)"
    r"(\d{1,3}(?:[, ]\d{3}){1,8}(?:\.\d{0,20})?|\d{1,25}(?:\.\d{0,20})?|\.\d{1,20})"
    rf"(?: ?{_UNIT})?",
    re.ASCII,
)


def short_answer(message: str) -> str:
    """What follows the last `ANSWER:`; else the only line there is; else ""."""
    lines = _lines(message)
    alone = len(lines) == 1 and not _MARKED.match(lines[0])
    return marked_answer(message) or (lines[0] if alone else "")


def marked_answer(message: str) -> str:
    """What follows the last `ANSWER:`, on its line or on the next one; "" if nothing does."""
    lines = _lines(message)
    for number in range(len(lines) - 1, -1, -1):
        if found := _MARKED.match(lines[number]):
            return found["answer"].strip(" *_`\t") or "".join(lines[number + 1 : number + 2])
    return ""


def _lines(message: str) -> list[str]:
    return [line for line in message.splitlines() if line.strip(" `\t")]


def same_answer(given: str, accepted: str) -> bool:
    return normal(given) == normal(accepted)


def normal(answer: str) -> str:
    """Case, spaces, quotes, a closing dot, thousands commas and 2.50 against 2.5 do not count.

    Nor how a currency is written, or on which side of its amount; but it is part of the answer,
    and so is a percent sign.
    """
    text = unicodedata.normalize("NFKC", answer).replace("\N{MINUS SIGN}", "-").strip()
    text = text.strip("`*_\"' \t").removesuffix(".").strip("`*_\"' \t")
    text = re.sub(r"\s+", " ", text).casefold()
    text = re.sub(r"\s*,\s*", ",", text)
    amount = _AMOUNT.fullmatch(text)
    if amount is None:
        return text
    sign, before, late_sign, digits, after = amount.groups()
    units = {_UNITS[unit] for unit in (before, after) if unit}
    if len(units) > 1 or (sign and late_sign):
        return text
    number = Decimal(sign + late_sign + re.sub("[, ]", "", digits)).normalize()
    return " ".join((f"{number:f}", *units))
