"""What is known of a component without importing it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Family = Literal["benchmarks", "harnesses", "environments", "recipes", "models", "analyzers"]

OURS = "agentcompass"
"""The distribution that brings what is built in."""

# Not `ast`: in Python 3.11 two threads that parse at once break each other (SystemError).
_FIRST_LINE = re.compile(
    r"""(?:\s|#.*)*[rR]?(?P<quote>\"{3}|'{3}|"|')(?P<line>.*?)(?:(?P=quote)|\n)"""
)


@dataclass(frozen=True)
class Listing:
    """A registered component, not imported."""

    id: str
    origin: str
    """`built in`, the distribution that brings it with its version, or the path of its file."""
    summary: str
    """First line of its file's docstring."""
    module: str
    """`module:attribute`; for a component of a trusted directory its path."""
    distribution: str | None = None
    """Whose extras bring the libraries it needs; None: it comes from a trusted directory."""
    path: Path | None = None
    """The file or folder, if it comes from a trusted directory."""


def summary(path: Path) -> str:
    """First docstring line of a module, or of a package by its folder; "" if there is none."""
    source = path / "__init__.py" if path.is_dir() else path
    try:
        found = _FIRST_LINE.match(source.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found["line"].strip().rstrip(".") if found else ""
