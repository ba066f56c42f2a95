"""What a build is made from: the files of its context, its Dockerfile, and a hash over both."""

import hashlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agentcompass.components.contracts.requirements import Build
from agentcompass.components.contracts.user_path import user_path

_OUTSIDE = ".dockerfile.agentcompass"
_CHUNK_BYTES = 1024 * 1024
_BUILDKIT_FLAG = re.compile(
    r"(?:--\S+\s+)*?(--(?:mount|security|network|chmod|link|exclude|parents|checksum)\b)"
)
_HEREDOC = re.compile(r"(?<!<)(<<-?[\"']?[A-Za-z_]\w*)")


@dataclass(frozen=True)
class BuildContext:
    root: Path
    files: tuple[str, ...]
    """Relative, sorted; what .dockerignore names is left out."""
    dockerfile: str
    """Its name for the engine."""
    extra: tuple[tuple[str, str], ...]
    """Name and text of files sent beside: a Dockerfile from outside the context."""
    text: str
    """Of the Dockerfile."""
    signature: str
    """Changes whenever a file may have changed; costs no reading."""


def dockerfile_path(build: Build) -> Path:
    return context_path(build) / Path(build.dockerfile).expanduser()


def context_path(build: Build) -> Path:
    return user_path(build.context, "env-params.setup.build.context").absolute()


def build_problem(build: Build) -> str | None:
    """Why it cannot even begin."""
    root, dockerfile = context_path(build), dockerfile_path(build)
    if not root.is_dir():
        return f"the build context {root} is no folder here"
    if not dockerfile.is_file():
        return f"there is no Dockerfile {dockerfile}"
    return None


def read_context(build: Build) -> BuildContext:
    """Raises OSError."""
    from docker.utils import exclude_paths

    root, dockerfile = context_path(build), dockerfile_path(build)
    text = dockerfile.read_text(encoding="utf-8", errors="replace")
    ignored = _ignored(root)
    inside = _inside(root, dockerfile)
    files = sorted(exclude_paths(str(root), list(ignored), dockerfile=inside or _OUTSIDE))
    extra: tuple[tuple[str, str], ...] = ()
    if inside is None:  # sent along under a name that COPY does not see
        extra = ((".dockerignore", "\n".join((*ignored, _OUTSIDE))), (_OUTSIDE, text))
    signature = hashlib.sha256(text.encode())
    for path in files:
        found = (root / path).lstat()
        line = (path, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ino)
        signature.update(repr(line).encode("utf-8", "surrogatepass"))
    return BuildContext(root, tuple(files), inside or _OUTSIDE, extra, text, signature.hexdigest())


def content_hash(context: BuildContext, platform: str | None, arguments: Mapping[str, str]) -> str:
    """Over names, modes and contents, not times: the same wherever the context lies. Raises
    OSError."""
    whole = hashlib.sha256()
    head = ("1", context.dockerfile, context.text, platform or "", sorted(arguments.items()))
    whole.update(repr(head).encode("utf-8", "surrogatepass"))
    for path in context.files:
        full = context.root / path
        found = full.lstat()
        whole.update(repr((path, found.st_mode)).encode("utf-8", "surrogatepass"))
        if stat.S_ISLNK(found.st_mode):
            whole.update(os.fsencode(os.readlink(full)))  # noqa: PTH115
        elif stat.S_ISREG(found.st_mode):
            content = hashlib.sha256()
            with full.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    content.update(chunk)
            whole.update(content.digest())
    return whole.hexdigest()[:40]


def packed(context: BuildContext) -> IO[bytes]:
    """As the engine takes it: a tar file, in a temporary file. Raises OSError."""
    from docker.utils import create_archive

    archive = tempfile.TemporaryFile()  # noqa: SIM115  (closed by who sends it)
    try:
        create_archive(
            str(context.root),
            files=list(context.files),
            fileobj=archive,
            extra_files=list(context.extra),
        )
    except BaseException:
        archive.close()
        raise
    archive.seek(0)
    return archive


def images_named(text: str, arguments: Mapping[str, str]) -> dict[str, str | None]:
    """Images that a Dockerfile is built from, with the platform asked for: FROM and COPY --from.

    Stages are none. A name that only the engine can complete is left to it.
    """
    values: dict[str, str] = {}
    stages: set[str] = {"scratch"}
    found: dict[str, str | None] = {}
    in_stage = False
    for word, rest in _instructions(text):
        if word == "ARG" and not in_stage:
            argument, equals, default = rest.partition("=")
            if argument in arguments or equals:
                values[argument] = arguments.get(argument, default.strip("\"'"))
        elif word == "FROM":
            in_stage = True
            parts = _words(rest)
            flags = [part for part in parts if part.startswith("--")]
            parts = [part for part in parts if not part.startswith("--")]
            if not parts:
                continue
            platform = next((one[11:] for one in flags if one.startswith("--platform=")), None)
            name = _filled(parts[0], values)
            if name and name.lower() not in stages:
                found.setdefault(name, _filled(platform, values) if platform else None)
            if len(parts) == 3 and parts[1].upper() == "AS":
                stages.add(parts[2].lower())
        elif word == "COPY" and (source := re.search(r"--from=(\S+)", rest)):
            other = source[1]
            if not other.isdigit() and "$" not in other and other.lower() not in stages:
                found.setdefault(other, None)
    return found


def buildkit_problem(text: str) -> str | None:
    """What the builder behind the engine's API does not know."""
    for word, rest in _instructions(text):
        if word not in ("RUN", "COPY", "ADD"):
            continue
        found = _BUILDKIT_FLAG.match(rest) or _HEREDOC.search(rest)
        if found is not None:
            return (
                f"the Dockerfile needs BuildKit ({word} {found[1]}), which the engine's API does "
                "not give; write it without, or build the image beforehand and give its name as "
                "setup.image"
            )
    return None


def _ignored(root: Path) -> tuple[str, ...]:
    try:
        text = (root / ".dockerignore").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ()
    lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def _inside(root: Path, dockerfile: Path) -> str | None:
    """Relative to the context; None: outside."""
    relative = os.path.relpath(dockerfile, root)
    return None if relative.startswith("..") else relative


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Instruction and the rest of its line, continued lines joined, comments left out."""
    escape = "`" if re.match(r"\s*#\s*escape\s*=\s*`", text, re.IGNORECASE) else "\\"
    waiting = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        stripped = line.rstrip()
        if stripped.endswith(escape):
            waiting += stripped[:-1] + " "
            continue
        word, _, rest = (waiting + stripped).strip().partition(" ")
        waiting = ""
        if word:
            yield word.upper(), rest.strip()


def _words(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def _filled(text: str, values: Mapping[str, str]) -> str | None:
    """With `$NAME`, `${NAME}` and `${NAME:-default}` replaced; None: not all are known."""

    def value(match: re.Match[str]) -> str:
        name = match["braced"] or match["bare"]
        return values.get(name) or match["default"] or "\0"

    pattern = r"\$(?:\{(?P<braced>\w+)(?::-(?P<default>[^}]*))?\}|(?P<bare>\w+))"
    filled = re.sub(pattern, value, text)
    return None if "\0" in filled or "$" in filled else filled
