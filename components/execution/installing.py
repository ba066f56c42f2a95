"""Install requirements into the Python environment that runs this, with uv or else pip."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import platformdirs
from filelock import FileLock
from packaging.requirements import Requirement

TIMEOUT_SECONDS = 1800.0
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
_one_at_a_time = threading.Lock()


class InstallFailed(Exception):
    """One line: what could not be installed, why, and where all of the output is."""


def install(wanted: Sequence[str]) -> str:
    """Blocking. Returns what was installed, for people, and where the output is.

    Everything already installed is held at its version. Installers run in an empty directory: a
    project's own settings for them (another index) must not decide what is installed here.
    """
    _check_versions(wanted)
    output = _output_file()
    with _one_at_a_time, FileLock(output.parent / "installing.lock"):
        before = _installed()
        with tempfile.TemporaryDirectory() as empty:
            held = Path(empty, "held.txt")
            held.write_text("".join(f"{line}\n" for line in before.items_as_lines()), "utf-8")
            reasons = []
            for command in _commands(held):
                reason = _run([*command, *wanted], empty, output)
                if not reason:
                    break
                reasons.append(reason)
            else:
                raise InstallFailed(
                    f"{', '.join(wanted)}: {'; '.join(reasons) or 'neither uv nor pip is here'} "
                    f"(output: {output})"
                )
        after = _installed()
    new = [f"{name} {after[name]}" for name in sorted(after) if name not in before]
    return f"{', '.join(new) or 'nothing new'} (output: {output})"


def _check_versions(wanted: Sequence[str]) -> None:
    """An installer would say it in a page."""
    for text in wanted:
        requirement = Requirement(text)
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            raise InstallFailed(
                f"{text} is needed, and {requirement.name} {version} is here; what is installed "
                "already keeps its version, so change it yourself"
            )


class _Installed(dict[str, str]):
    """Distribution → version."""

    def items_as_lines(self) -> Iterator[str]:
        for name, version in self.items():
            if _VERSION.fullmatch(version):
                yield f"{name}=={version}"


def _installed() -> _Installed:
    found = _Installed()
    for distribution in metadata.distributions():
        if (name := distribution.metadata["Name"]) and name not in found:
            found[name] = distribution.version
    return found


def _commands(held: Path) -> Iterator[list[str]]:
    """Each way there is to install, the fastest first."""
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if uv:
        yield [uv, "pip", "install", "--python", sys.executable, "--constraint", str(held)]
    pip = [sys.executable, "-P", "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode == 0:
        yield [
            *pip, "install", "--no-input", "--disable-pip-version-check", "--constraint", str(held),
        ]  # fmt: skip


def _run(command: Sequence[str], directory: str, output: Path) -> str:
    """Why it failed, on one line; "" if it did not. Everything it said is added to `output`."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        said, code = done.stdout.decode("utf-8", "replace"), done.returncode
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode("utf-8", "replace")
        said, code = f"{said}\nno end after {TIMEOUT_SECONDS:g} s", 1
    except OSError as error:
        said, code = str(error), 1
    with output.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n{said}\nexit code {code}\n\n")
    if code == 0:
        return ""
    name = "pip" if "-m" in command else "uv"
    return f"{name} says {_reason(said)!r}"


def _reason(said: str) -> str:
    """From the first line that tells of an error; uv draws a tree under it."""
    lines = [" ".join(line.strip(" │╰─▶×").split()) for line in said.splitlines()]
    start = next(
        (n for n, line in enumerate(lines) if line.lower().startswith("error")),
        max(0, len(lines) - 3),
    )
    text = " ".join(filter(None, lines[start:])) or "nothing"
    return text if len(text) <= 300 else text[:297] + "…"


def _output_file() -> Path:
    folder = Path(platformdirs.user_log_dir("agentcompass"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="agentcompass-"))
    return folder / f"install-{datetime.now(UTC):%Y%m%d_%H%M%S}-{os.getpid()}.log"
