"""A path as its user typed it."""

from pathlib import Path

from agentcompass.components.contracts.errors import RequestError

_SHOWN = 80


def user_path(typed: str | Path, field: str) -> Path:
    """With `~` and `~name` as a shell reads them; whether it exists is the caller's to ask.

    RequestError for one that cannot be asked for: no such user, a name too long, a NUL, a folder
    on the way that may not be entered.
    """
    try:
        path = Path(typed).expanduser()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (RuntimeError, OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else str(error)) or "no such path"
        shown = str(typed) if len(str(typed)) <= _SHOWN else f"{str(typed)[:_SHOWN]}…"
        raise RequestError(field, f"{shown!r} cannot be used: {reason.rstrip('.')}") from None
    return path
