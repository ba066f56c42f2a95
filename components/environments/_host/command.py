"""A command as its keeper and the kernel take it, and what no kernel would start."""

import marshal
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from agentcompass.components.environments._host.keeper import SCRIPT_DESCRIPTOR

_LONGEST_ARGUMENT = 128 * 1024 - 1  # the kernel's own limit for one argument


class CommandPapers:
    """What the keeper needs to start a command, as open files: payload, stdin, any script.

    Files, not pipes: nothing has to be fed while the output is drained. Raises OSError.
    """

    def __init__(
        self,
        argv: Sequence[bytes],
        cwd: bytes,
        variables: Mapping[bytes, bytes],
        stdin: bytes | None,
    ) -> None:
        script = None
        if len(argv) == 3 and argv[1] == b"-c" and len(argv[2]) > _LONGEST_ARGUMENT:
            script = argv[2]  # a shell line the kernel would not let through: the shell reads it
            argv = (argv[0], b"-c", b". /dev/fd/%d" % SCRIPT_DESCRIPTOR)
        payload = marshal.dumps((tuple(argv), cwd, dict(variables), script is not None))
        self.files: list[IO[bytes]] = []
        try:
            for content in (payload, stdin, *([script] if script is not None else ())):
                self.files.append(_file_holding(content))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for file in self.files:
            file.close()


def unstartable(
    argv: Sequence[str], directory: str, variables: Mapping[str, str]
) -> tuple[int, str] | None:
    """Exit code and reason for what no kernel would start."""
    if not argv or not argv[0]:
        return 127, "cannot start: the command is empty\n"
    if any("\0" in text for text in (*argv, directory, *variables.values())):
        return 126, "cannot start: the command holds a NUL character\n"
    if bad := [name for name in variables if not name or "=" in name or "\0" in name]:
        return 126, f"cannot start: {bad[0]!r} is not a variable's name\n"
    return None


def encoded(text: str) -> bytes:
    """As a command's bytes; what came from undecodable names goes back as it was."""
    try:
        return text.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", errors="replace")


def _file_holding(content: bytes | None) -> IO[bytes]:
    if content is None:
        return Path(os.devnull).open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by who holds the papers)
    os.fchmod(file.fileno(), 0o444)  # /dev/stdin opens it anew, maybe as another user
    file.write(content)
    file.seek(0)
    return file
