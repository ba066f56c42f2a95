"""Find a short answer in a final message, and compare it by what it says."""

import re
import unicodedata
from decimal import Decimal

_MARKED = re.compile(r"^[\s>*_`#-]*ANSWER\s*[*_`]*\s*[:=]\s*(?P<answer>.*)$", re.IGNORECASE)

_PLAIN_NUMBER = re.compile(r"[-+]?(\d{1,25}(\.\d{0,20})?|\.\d{1,20})", re.ASCII)


def short_answer(message: str) -> str:
    """What follows the last `ANSWER:`; else the only line there is; else "".

    A marker at the end of its line is followed by the answer on the next one.
    """
    lines = [line for line in message.splitlines() if line.strip(" `\t")]
    for number in range(len(lines) - 1, -1, -1):
        if found := _MARKED.match(lines[number]):
            return found["answer"].strip(" *_`\t") or "".join(lines[number + 1 : number + 2])
    return lines[0] if len(lines) == 1 else ""


def same_answer(given: str, accepted: str) -> bool:
    return normal(given) == normal(accepted)


def normal(answer: str) -> str:
    """Case, spaces, quotes, a closing dot, thousands commas and 2.50 against 2.5 do not count."""
    text = unicodedata.normalize("NFKC", answer).replace("\N{MINUS SIGN}", "-").strip()
    text = text.strip("`*_\"' \t").removesuffix(".").strip("`*_\"' \t")
    text = re.sub(r"\s+", " ", text).casefold()
    text = re.sub(r"\s*,\s*", ",", text)
    number = re.sub(r",(?=\d{3}(?:\D|$))", "", text.removeprefix("$").removesuffix("%").strip())
    if not _PLAIN_NUMBER.fullmatch(number):
        return text
    return f"{Decimal(number).normalize():f}"
