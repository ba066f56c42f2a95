"""One task as a folder, in the Harbor task format:

<task id>/
  task.toml         limits, users, network, environment; see task_config.py
  instruction.md    what the agent reads
  environment/      Dockerfile and what it copies, unless task.toml names an image
  tests/            test.sh and its files; in the sandbox as /tests, once the agent ended
  solution/         solve.sh and its files; in the sandbox as /solution, for the oracle only
  steps/<name>/     of one step, in a task of several: instruction.md, tests/, solution/, and
                    workdir/, whose files it brings, with a setup.sh to be run there
"""

import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from agentcompass.components.benchmarks._harbor.task_config import (
    EnvironmentSection,
    TaskConfig,
    unknown_keys,
)
from agentcompass.components.contracts.invalid import first_problem

COMPOSE_FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_STEP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)


class UnusableTask(Exception):
    """This task cannot be measured here. The message says why, in one line, without the id."""


@dataclass(frozen=True)
class TaskFolder:
    path: Path
    config: TaskConfig
    instruction: str
    """Of a task in steps: those of all steps, one after another."""
    steps_told: tuple[str, ...]
    """The instruction of each step."""
    content_hash: str
    """sha256 over every file: its path, whether it is executable, its bytes."""
    unknown_keys: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def dockerfile(self) -> Path | None:
        path = self.path / "environment" / "Dockerfile"
        return path if path.is_file() else None


def read_task(path: Path) -> TaskFolder:
    """Raises UnusableTask for a folder that is not a sound task, or needs what is not offered."""
    try:
        text = (path / "task.toml").read_text(encoding="utf-8")
        config = TaskConfig.model_validate(tomllib.loads(text))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnusableTask(f"task.toml cannot be read: {_line(error)}") from error
    except ValidationError as error:
        raise UnusableTask(f"task.toml, {first_problem(error, 'as a whole')}") from error
    _check_supported(path, config)
    told = tuple(_instruction(path, f"steps/{step.name}/instruction.md") for step in config.steps)
    headed = (f"[{step.name}]\n{text}" for step, text in zip(config.steps, told, strict=True))
    return TaskFolder(
        path=path,
        config=config,
        instruction="\n".join(headed) if told else _instruction(path, "instruction.md"),
        steps_told=told,
        content_hash=tree_hash(path),
        unknown_keys=tuple(unknown_keys(config)),
    )


def _instruction(path: Path, name: str) -> str:
    try:
        return without_canary((path / name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableTask(f"{name} cannot be read: {_line(error)}") from error


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
    environment = config.environment
    check_environment(environment)
    if found := [name for name in COMPOSE_FILES if (path / "environment" / name).is_file()]:
        raise UnusableTask(f"is made of several containers (environment/{found[0]})")
    if environment.docker_image is None and not (path / "environment" / "Dockerfile").is_file():
        raise UnusableTask("has neither environment/Dockerfile nor environment.docker_image")
    if (path / "trajectory.json").is_file():
        raise UnusableTask("starts from an earlier conversation (trajectory.json)")
    names = [step.name for step in config.steps]
    if bad := [name for name in names if _STEP.fullmatch(name) is None]:
        raise UnusableTask(f"has a step {bad[0]!r}, which is no name for a folder")
    if len({name.lower() for name in names}) < len(names):
        raise UnusableTask("has two steps of the same name")


def check_environment(environment: EnvironmentSection, which: str = "") -> None:
    """Raises UnusableTask for what no sandbox here offers; `which`: in front of the message."""
    if environment.os != "linux":
        raise UnusableTask(f"{which}needs {environment.os}; only linux sandboxes are offered")
    if environment.tpu is not None:
        raise UnusableTask(f"{which}needs a TPU, which no environment offers")
    if environment.gpus and environment.gpu_types:
        raise UnusableTask(
            f"{which}needs a GPU of type {', '.join(environment.gpu_types)}; not selectable"
        )
    if environment.mcp_servers:
        raise UnusableTask("declares MCP servers for the agent, which no harness here connects to")


def _line(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error).partition("\n")[0]
