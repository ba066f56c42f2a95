"""The files of a root directory small enough for a test's image: programs of this machine."""

import re
import shutil
import subprocess
from pathlib import Path

PROGRAMS = (
    *("sh", "bash", "cat", "head", "tail", "mkdir", "rm", "mv", "cp", "ls", "ln", "chmod", "chown"),
    *("stat", "find", "tar", "dd", "wc", "env", "id", "sleep", "timeout", "mktemp", "readlink"),
    *("dirname", "basename", "sort", "tr", "cut", "sed", "grep", "touch", "test", "printf", "od"),
)


def small_root(programs: tuple[str, ...] = PROGRAMS) -> dict[str, bytes]:
    """Path (relative to the root) → content, with the libraries they load."""
    files: dict[str, bytes] = {"tmp/.here": b""}
    for program in programs:
        found = shutil.which(program)
        if found is None:
            continue
        files[f"bin/{program}"] = Path(found).read_bytes()
        told = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", told):
            files[library.lstrip("/")] = Path(library).read_bytes()
    return files
