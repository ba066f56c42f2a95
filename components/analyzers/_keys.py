"""What looks like a live key, by its shape or by the name it stands beside."""

import math
import re
from collections import Counter
from collections.abc import Iterator

_SHAPES = re.compile(
    r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))(?:"  # a line end that JSON wrote as \n, too
    r"sk-(?:ant-|proj-|or-v1-|svcacct-)?[A-Za-z0-9_-]{20,200}"
    r"|gh[pousr]_[A-Za-z0-9]{36,100}|github_pat_[A-Za-z0-9_]{40,120}|glpat-[A-Za-z0-9_-]{20,60}"
    r"|hf_[A-Za-z0-9]{30,60}|AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}"
    r"|xox[abprs]-[A-Za-z0-9-]{20,200}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,250}"
    r"|ya29\.[A-Za-z0-9_-]{30,300}|dtn_[A-Za-z0-9]{32,100}"
    r")(?![A-Za-z0-9])"
)
_MARKS = (
    "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "AKIA", "ASIA",
    "AIza", "xox", "npm_", "pypi-", "ya29.", "dtn_",
)  # fmt: skip
"""One of them stands in every shape: a quick look before the slow one."""
_PRIVATE = re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*(?:\\n)?[A-Za-z0-9+/=]{40}")
_PRIVATE_BLOCK = re.compile(
    r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*(?:\\n)?[A-Za-z0-9+/=]{40}.*?(?:-----END|\Z)",
    re.DOTALL,
)
_NAMED = re.compile(
    r"(?i)(?:api[_-]?key|access[_-]?token|auth[_-]?token|secret[_-]?key|client[_-]?secret)"
    r"[\"']?\s{0,4}[:=]\s{0,4}[\"']?([A-Za-z0-9_+/=.-]{24,200})(?![A-Za-z0-9])"
)
_NAMES = (
    "api_key", "api-key", "apikey", "access_token", "access-token", "accesstoken", "auth_token",
    "auth-token", "authtoken", "secret_key", "secret-key", "secretkey", "client_secret",
    "client-secret", "clientsecret",
)  # fmt: skip
_DUMMY = re.compile(
    r"(?i)example|dummy|fake|placeholder|your[_-]|test[_-]?key|xxxx|0000|1234567|abcdef|changeme"
    r"|redacted|not-?needed|\.\.\."
)
_DOTTED = re.compile(r"(?!eyJ)[A-Za-z_]\w{0,23}(?:\.[A-Za-z_]\w{0,23})+")
"""Not a JSON web token, whose parts are long."""


def without_keys(text: str) -> str:
    """Of each find four characters are left."""
    text = _PRIVATE_BLOCK.sub("-----BEGIN PRIVATE KEY-----…", text)
    for key in dict.fromkeys(keys(text)):
        text = text.replace(key, f"{key[:4]}…")
    return text


def keys(text: str) -> Iterator[str]:
    """Every find, in the order of the shapes; dummies are left out."""
    if any(mark in text for mark in _MARKS):
        for found in _SHAPES.finditer(text):
            if _looks_live(found.group()):
                yield found.group()
    if "-----BEGIN" in text and (found_private := _PRIVATE.search(text)):
        yield found_private.group()
    plain = text.lower()
    for found in _NAMED.finditer(text) if any(name in plain for name in _NAMES) else ():
        if (
            _looks_live(found[1])
            and not _is_name(found)
            and re.search(r"\d", found[1])
            and re.search(r"[A-Za-z]", found[1])
        ):
            yield found[1]


def _is_name(found: re.Match[str]) -> bool:
    """`api_key=self.settings.openai_v1`: code that names where the key is."""
    quoted = found.string[found.start(1) - 1 : found.start(1)] in ("'", '"')
    return not quoted and _DOTTED.fullmatch(found[1]) is not None


def _looks_live(key: str) -> bool:
    return _DUMMY.search(key) is None and _bits(key) > 3.0


def _bits(key: str) -> float:
    """Shannon entropy per character: words and repeated characters are below 3."""
    counts = Counter(key).values()
    return -sum(n / len(key) * math.log2(n / len(key)) for n in counts)
