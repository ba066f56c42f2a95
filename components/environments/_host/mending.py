"""A workspace without isolation is in its commands' own hands: what they put in its place goes.

A link to somewhere else must not be followed: files of the machine would come into the results,
or be written. Nor may it be an error: an agent that sees itself fail could turn its zero into
an attempt that does not count. So the workspace is gone then, as if it had been removed, which
is what the agent left.
"""

import os
import stat


def mended(root: str) -> str:
    """Remove what is no directory where the workspace was, open what was closed; says what."""
    found = ((name, _mended(path)) for name, path in (("", root), ("/work", f"{root}/work")))
    return ", ".join(f"{root}{name} was {what}" for name, what in found if what)


def _mended(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return ""  # removed: it stays so, and whoever looks finds nothing
    if not stat.S_ISDIR(mode):
        os.unlink(path)  # noqa: PTH108 (called before each command: as light as can be)
        return "replaced by a link" if stat.S_ISLNK(mode) else "replaced by a file"
    if mode & stat.S_IRWXU != stat.S_IRWXU and os.geteuid() != 0:
        os.chmod(path, stat.S_IMODE(mode) | stat.S_IRWXU)  # noqa: PTH101
        return "closed"
    return ""
