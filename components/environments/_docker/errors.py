"""What a Docker engine's failure means, in one line with the way out.

The engine answers most failures of a registry or a runtime with status 500 or 404 and a text;
so the text decides, first rule first. The texts are of engines 20.10 to 28.
"""

import errno
import re
from collections.abc import Iterator

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments._docker.errors_rules import RULES, Rule

_LONGEST_DETAIL = 300
_LOCATIONS = re.compile(r"(https?://)(?:[^\s/@\"']*@)?([^\s\"'?]+)(?:\?[^\s\"']*)?")


def explained(
    error: BaseException, doing: str, code: Code = Code.ENVIRONMENT_START
) -> AgentCompassError:
    """`doing` begins the line (`pulling image x`); `code` unless the failure has its own.

    A failure that has been explained already is returned as it is.
    """
    if isinstance(error, AgentCompassError):
        return error
    detail = one_line(text_of(error))
    if _has(error, PermissionError):
        reason = (
            "the Docker engine refuses this user; add yourself to the docker group "
            "(sudo usermod -aG docker $USER) and log in again, or use a rootless engine"
        )
    elif _unreachable(error):
        reason = (
            f"the Docker engine cannot be reached ({detail}); start it, or set DOCKER_HOST or "
            "the docker context to a running one"
        )
    elif _timed_out(error):
        reason = (
            f"the Docker engine did not answer in time ({detail}); see its log and the machine's "
            "load"
        )
    elif _cut_off(error):
        reason = f"the connection to the Docker engine was lost ({detail})"
    elif (rule := _rule(error)) is not None:
        reason = rule.explained(text_of(error), detail)
        code = rule.code or code
    else:
        reason = detail
    return AgentCompassError(code, f"{doing}: {reason}")


def transient(error: BaseException) -> bool:
    """May the same call succeed in a moment? False for what only a person can put right."""
    if isinstance(error, AgentCompassError):
        return False
    if _has(error, PermissionError) or _has(error, FileNotFoundError):
        return False
    if _unreachable(error) or _timed_out(error) or _cut_off(error):
        return True
    rule = _rule(error)
    if rule is not None:
        return rule.transient
    status = getattr(error, "status_code", None)
    return status is not None and (status >= 500 or status == 429)


def rate_limited(error: BaseException) -> bool:
    rule = _rule(error)
    return rule is not None and rule.name == "rate limit"


def registry_unreachable(error: BaseException) -> bool:
    """No word from the registry at all: what holds for one of its images holds for all."""
    rule = _rule(error)
    return rule is not None and rule.name in ("registry unreachable", "unknown registry")


def retry_after_seconds(error: BaseException) -> float | None:
    """How long the other side asks us to wait, where that reaches us."""
    response = getattr(error, "response", None)
    header = getattr(response, "headers", None) or {}
    given = str(header.get("Retry-After", "")).strip()
    if re.fullmatch(r"[0-9]{1,6}", given):
        return float(given)
    if found := re.search(r"retry-after:\s*([0-9.]+)\s*(ns|µs|us|ms|s|m|h)?", text_of(error), re.I):
        scale = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "m": 60.0, "h": 3600.0}
        try:
            return float(found[1]) * scale.get((found[2] or "s").lower(), 1.0)
        except ValueError:  # 1.2.3
            return None
    return None


def one_line(text: str, longest: int = _LONGEST_DETAIL) -> str:
    """Without line breaks, and without what signs an address: passwords and queries."""
    text = _LOCATIONS.sub(r"\1\2", re.sub(r"\s+", " ", text).strip())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def text_of(error: BaseException) -> str:
    """What the engine said, without the SDK's own words around it."""
    return str(getattr(error, "explanation", None) or error or type(error).__name__)


def _rule(error: BaseException) -> Rule | None:
    text = text_of(error)
    return next((rule for rule in RULES if rule.pattern.search(text)), None)


def _unreachable(error: BaseException) -> bool:
    """The engine itself: nobody listens there."""
    return any(
        isinstance(cause, FileNotFoundError | ConnectionRefusedError)
        or (isinstance(cause, OSError) and cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH))
        or type(cause).__name__ in ("NewConnectionError", "NameResolutionError", "ConnectTimeout")
        for cause in _chain(error)
    )


def _timed_out(error: BaseException) -> bool:
    names = ("ReadTimeout", "ReadTimeoutError", "Timeout")
    return any(
        isinstance(cause, TimeoutError) or type(cause).__name__ in names for cause in _chain(error)
    )


def _cut_off(error: BaseException) -> bool:
    names = ("ConnectionError", "ChunkedEncodingError", "ProtocolError", "IncompleteRead")
    return any(
        isinstance(cause, ConnectionError) or type(cause).__name__ in (*names, "RemoteDisconnected")
        for cause in _chain(error)
    )


def _has(error: BaseException, kind: type[BaseException]) -> bool:
    return any(isinstance(cause, kind) for cause in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was made from, and what its layers carry as arguments; nothing for an
    answer of the engine, whatever came before it."""
    if getattr(error, "explanation", None):
        return
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        carried = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
        waiting += [part for part in carried if isinstance(part, BaseException)]
