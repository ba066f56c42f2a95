"""Ids as file names: safe, unique, short and readable. Ids are data, never trusted as paths.

A name that is already safe stays as it is: 1–100 of `a-z 0-9 . _ -`, not beginning with a dot or
a dash, not ending in a dot, and no device name of Windows (`con`, `nul`, …). Any other name (with
upper case too: disks may not tell `A` from `a`) becomes

    <readable part, 87 bytes at most>~<first 12 hex digits of the sha256 of the whole name>

`~` occurs in no safe name, so the two kinds never meet, and two names with the same readable part
differ in their hash. The true name is always inside the record that stands under it.

    astropy__astropy-12907 → astropy__astropy-12907      orgA/m  → orgA-m~2eac679f70c9
    ../m                   → m~92126086ec31              (empty) → unnamed~e3b0c44298fc
"""

import hashlib
import re
import unicodedata

from agentcompass.components.contracts.errors import RequestError

LONGEST_BYTES = 100
MARK = "~"
_HASH_DIGITS = 12
_PART_BYTES = 60  # three of them and their joints stay under the 255 of file systems
_PATH_BYTES = 200
_SAFE = re.compile(r"[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_-])?")
_USER_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_SUFFIX = re.compile(r"(?s)(.+)\.([A-Za-z0-9]{1,10})")


def safe_name(name: str) -> str:
    """One file name, at most 100 bytes of ASCII, different for every different name."""
    return name if _is_safe(name) else _hashed(name, LONGEST_BYTES)


def namespace_part(name: str) -> str:
    """A file name of at most 60 bytes that can be joined to others with `__` and told apart.

    Like `safe_name`, and without `__` inside or `_` at an end, so that the joints are the only
    `__` and (`a__b`, `c`) never meets (`a`, `b__c`).
    """
    joinable = "__" not in name and not name.startswith("_") and not name.endswith("_")
    if joinable and len(name) <= _PART_BYTES and _is_safe(name):
        return name
    return _hashed(name, _PART_BYTES, joined=True)


def safe_path(name: str) -> str:
    """A relative POSIX path for a file's name that may hold `/`, `..`, a root or anything else.

    A name made of safe names stays; every other one gets its hash before the file's suffix
    (`src/Main.java` → `src/Main~….java`). At most 200 bytes.
    """
    folders = name.split("/")
    if len(name) <= _PATH_BYTES and all(_is_safe(part) for part in folders):
        return name
    last = folders.pop()
    parted = _SUFFIX.fullmatch(last)
    stem, suffix = (parted[1], f".{parted[2]}") if parted else (last, "")
    file = f"{_readable(stem, 60)}{MARK}{_digest(name)}{suffix}"
    path = "/".join([*map(safe_name, folders), file])
    odd = any(part in ("", ".", "..") for part in folders)
    return file if odd or len(path) > _PATH_BYTES else path


def check_user_name(field: str, name: str) -> None:
    """Refuse a name the user chose for a folder unless it can be one on every system, as typed."""
    if (
        len(name) > LONGEST_BYTES
        or not _USER_NAME.fullmatch(name)
        or _RESERVED.fullmatch(name) is not None
    ):
        raise RequestError(
            field,
            f"{name[:120]!r} cannot be a folder's name",
            f"use 1-{LONGEST_BYTES} letters, digits, '.', '_' and '-', not '.' or '-' first, "
            "not '.' last",
        )


def _is_safe(name: str) -> bool:
    return (
        len(name) <= LONGEST_BYTES
        and _SAFE.fullmatch(name) is not None
        and _RESERVED.fullmatch(name) is None
    )


def _hashed(name: str, longest: int, *, joined: bool = False) -> str:
    readable = _readable(name, longest - _HASH_DIGITS - len(MARK), joined=joined)
    return f"{readable}{MARK}{_digest(name)}"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]


def _readable(name: str, longest: int, *, joined: bool = False) -> str:
    """What of a name can stand in a file name, ASCII only: file systems may speak nothing else."""
    plain = unicodedata.normalize("NFKD", name[: 4 * longest]).encode("ascii", "ignore").decode()
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", plain)
    if joined:
        text = re.sub(r"__+", "_", text)
    text = text.lstrip("-._" if joined else "-.")[:longest].rstrip("-._")
    if _RESERVED.fullmatch(text):
        text = text.replace(".", "-")
    return text or "unnamed"
