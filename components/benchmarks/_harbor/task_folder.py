"""One task as a folder, in the Harbor task format:

<task id>/
  task.toml         limits, users, network, environment; see task_config.py
  instruction.md    what the agent reads
  environment/      Dockerfile and what it copies, unless task.toml names an image
  tests/            test.sh and its files; in the sandbox as /tests, once the agent ended
  solution/         solve.sh and its files; in the sandbox as /solution, for the oracle only
  steps/<name>/     instruction.md, tests/, solution/ of one step, in a multi-step task
"""

import hashlib
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from agentcompass.components.benchmarks._harbor.task_config import TaskConfig, unknown_keys

TEXT_MAX_BYTES = 1024 * 1024
COMPOSE_FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)


class UnusableTask(Exception):
    """This task cannot be measured here. The message says why, in one line, without the id."""


@dataclass(frozen=True)
class TaskFolder:
    path: Path
    config: TaskConfig
    instruction: str
    content_hash: str
    """sha256 over every file: its path, whether it is executable, its bytes."""
    unknown_keys: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def tests(self) -> Path:
        return self.path / "tests"

    @property
    def solution(self) -> Path:
        return self.path / "solution"

    @property
    def dockerfile(self) -> Path | None:
        path = self.path / "environment" / "Dockerfile"
        return path if path.is_file() else None

    @cached_property
    def reward_files(self) -> frozenset[str]:
        """Of reward.json and reward.txt those that a text of the tests speaks of."""
        texts = [
            path.read_bytes()
            for path in self.tests.rglob("*")
            if path.is_file() and path.stat().st_size < TEXT_MAX_BYTES
        ]
        return frozenset(
            name
            for name in ("reward.json", "reward.txt")
            if any(name.encode() in text for text in texts)
        )


def read_task(path: Path) -> TaskFolder:
    """Raises UnusableTask for a folder that is not a sound task, or needs what is not offered."""
    try:
        text = (path / "task.toml").read_text(encoding="utf-8")
        config = TaskConfig.model_validate(tomllib.loads(text))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnusableTask(f"task.toml cannot be read: {_line(error)}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "as a whole"
        message = first["msg"].removeprefix("Value error, ")
        raise UnusableTask(f"task.toml, {place}: {message}") from error
    _check_supported(path, config)
    try:
        instruction = (path / "instruction.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableTask(f"instruction.md cannot be read: {_line(error)}") from error
    return TaskFolder(
        path=path,
        config=config,
        instruction=without_canary(instruction),
        content_hash=tree_hash(path),
        unknown_keys=tuple(unknown_keys(config)),
    )


def tree_hash(folder: Path) -> str:
    """Links count by where they point; times and other mode bits do not count."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if "__pycache__" in relative.parts or ".git" in relative.parts:
            continue
        if path.is_symlink():
            kind, content = b"l", str(path.readlink()).encode()
        elif path.is_file():
            kind, content = b"x" if path.stat().st_mode & 0o100 else b"f", path.read_bytes()
        else:
            continue
        name = str(relative).encode("utf-8", "surrogateescape")
        digest.update(b"%s %d %s %d\n" % (kind, len(name), name, len(content)) + content)
    return digest.hexdigest()


def without_canary(text: str) -> str:
    """Leading comment lines that only mark the file as benchmark data are not for the agent."""
    lines = text.split("\n")
    count = 0
    while count < len(lines) and _CANARY.fullmatch(lines[count].strip()):
        count += 1
    return "\n".join(lines[count:]).lstrip("\n") if count else text


def _check_supported(path: Path, config: TaskConfig) -> None:
    environment, verifier = config.environment, config.verifier
    if environment.os != "linux":
        raise UnusableTask(f"needs {environment.os}; only linux sandboxes are offered")
    if environment.tpu is not None:
        raise UnusableTask("needs a TPU, which no environment offers")
    if environment.gpus and environment.gpu_types:
        raise UnusableTask(
            f"needs a GPU of type {', '.join(environment.gpu_types)}; not selectable"
        )
    if environment.mcp_servers:
        raise UnusableTask("declares MCP servers for the agent, which no harness here connects to")
    if found := [name for name in COMPOSE_FILES if (path / "environment" / name).is_file()]:
        raise UnusableTask(f"is made of several containers (environment/{found[0]})")
    if environment.docker_image is None and not (path / "environment" / "Dockerfile").is_file():
        raise UnusableTask("has neither environment/Dockerfile nor environment.docker_image")
    if config.steps:
        raise UnusableTask(
            f"has {len(config.steps)} steps with an instruction each; a harness is called once"
        )
    if (path / "trajectory.json").is_file():
        raise UnusableTask("starts from an earlier conversation (trajectory.json)")
    services = {hook.service for hook in verifier.collect} | {
        entry.service or "main" for entry in config.artifacts
    }
    if services - {"main"}:
        raise UnusableTask(f"collects from another container ({sorted(services - {'main'})[0]})")
    if not (path / "tests" / "test.sh").is_file():
        raise UnusableTask("has no tests/test.sh")
    if verifier.mode == "separate":
        _check_separate(path, config)


def _check_separate(path: Path, config: TaskConfig) -> None:
    """A fresh sandbox for grading is made as the agent's was."""
    if config.verifier.environment is not None or (path / "tests" / "Dockerfile").is_file():
        raise UnusableTask(
            "is graded in a sandbox of another image ([verifier.environment] or tests/Dockerfile)"
        )


def _line(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error).partition("\n")[0]
