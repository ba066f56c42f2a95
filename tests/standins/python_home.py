"""A Python environment of its own that sees the packages of this one: what is installed into it
touches nobody else's."""

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PythonHome:
    root: Path

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    def run(
        self, *words: str, cwd: Path, timeout: float = 240, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        """A module and its arguments, in this environment."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [str(self.python), "-m", *words],
            cwd=cwd,
            env={**kept, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )

    def install(self, *projects: str, cwd: Path) -> None:
        """With pip and without the index: what builds them and what they need is here."""
        words = ("pip", "install", "--quiet", "--no-index", "--no-build-isolation", *projects)
        done = self.run(*words, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr


def python_home(root: Path) -> PythonHome:
    venv.create(root, with_pip=False, symlinks=True)
    home = PythonHome(root)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    here = sysconfig.get_paths()["purelib"]
    # `addsitedir` and not a bare path: editable installs are .pth files in there.
    line = f"import site; site.addsitedir({here!r})\n"
    (root / "lib" / version / "site-packages" / "beside.pth").write_text(line, "utf-8")
    return home
