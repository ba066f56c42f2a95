"""Whether what a user wrote may be shown, in an error or by `config show`: no secret ever is.

Names tell (`HF_TOKEN`), and so do values: credentials in an address, keys in their known shapes.
"""

import re
from collections.abc import Iterable

from agentcompass.components.configuration.secrets import REFERENCE, looks_secret

_BELOW = frozenset(["env", "run_env", "evaluation_env", "headers"])
_NAMED = re.compile(
    r"(?i)headers|env\b|auth|secret|passw|cred|key\b|token\b|sig\b|api.?key|access.?token"
)
_SHAPED = re.compile(
    r"(?<![\w-])(?:sk-[\w-]{8}|(?:gh[pousr]_|github_pat_|glpat-|hf_|AKIA|ASIA|AIza|xox[abprs]-|npm_"
    r"|pypi-|ya29\.|dtn_)[\w-]{16})|-----BEGIN|(?i:\b(?:bearer|basic)\s+\S{8})"
    r"|://(?:[^/\s:@]*:)?[^/\s:@]+@"
    r"|(?i:[?&][^=&\s]*(?:key|token|secret|sig|passw|auth|cred|code)[^=&\s]*=[^&\s])"
)


def below_variables(path: Iterable[str]) -> bool:
    """This place holds variables of a sandbox or headers, or is among them: whatever stands there
    by mistake is not shown."""
    return not _BELOW.isdisjoint(path)


def may_hold_secret(text: str) -> bool:
    """Of text that was not, or not rightly, taken apart: names of secrets count wherever they
    stand."""
    return bool(_NAMED.search(text)) or _shaped(text)


def is_secret(path: Iterable[str], value: str) -> bool:
    """Of a value in its place. References are none."""
    names = tuple(path)
    if REFERENCE.search(value):
        rest = REFERENCE.sub("", value)
        return _shaped(rest) or (bool(rest) and looks_secret(names[-1]) and "headers" not in names)
    return looks_secret(names[-1]) or "headers" in names or _shaped(value)


def _shaped(text: str) -> bool:
    return bool(_SHAPED.search(REFERENCE.sub("", text)))
