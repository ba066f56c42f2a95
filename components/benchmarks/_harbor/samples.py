"""A task folder as a Sample: what its task.toml asks for, in our own words."""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcompass.components.benchmarks._harbor.rounds import Round
from agentcompass.components.benchmarks._harbor.task_config import (
    EnvironmentSection,
    NetworkRule,
)
from agentcompass.components.benchmarks._harbor.task_folder import TaskFolder, tree_hash
from agentcompass.components.contracts.errors import PreflightRefused
from agentcompass.components.contracts.requirements import (
    AllowedHosts,
    Build,
    Network,
    NetworkPolicy,
    Requirements,
    Resources,
)
from agentcompass.components.contracts.task import AnswerKey, Sample, Task

AROUND_TESTS_SECONDS = 60.0
"""For what happens before and after test.sh, whose time limit is the task's."""
_TEMPLATE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):-(.*)\}", re.DOTALL)
_FROM = re.compile(r"(?im)^([ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?)(\S+)")


@dataclass(frozen=True)
class Images:
    """How a task's images come about."""

    build: bool
    """From a Dockerfile even where a published image is named."""
    from_images: Mapping[str, str]
    data_dir: Path

    def choice(self, published: str | None, dockerfile: Path | None) -> dict[str, Any]:
        """`image` or `build` of Requirements."""
        if dockerfile is not None and (self.build or published is None):
            return {"build": _build(dockerfile, self.from_images, self.data_dir)}
        return {"image": published}


def sample(folder: TaskFolder, rounds: Sequence[Round], images: Images) -> Sample:
    """The whole task."""
    task = _task(folder, rounds[0], _requirements(folder, images), images)
    if folder.config.steps:
        in_steps = {
            "id": folder.id,
            "instruction": folder.instruction,
            # What the steps left is all that is looked at.
            "verification": "none",
            "grading": None,
        }
        task = task.model_copy(update=in_steps)
    return _sample(folder, task)


def step_samples(whole: Sample, rounds: Sequence[Round], images: Images) -> tuple[Sample, ...]:
    """Of a task in steps; else none."""
    required = whole.task.requirements
    return tuple(
        _sample(one.folder, _task(one.folder, one, required, images)) for one in rounds if one.step
    )


def _sample(folder: TaskFolder, task: Task) -> Sample:
    return Sample(
        task=task,
        # Verification finds tests and solution by the task's id, in its folder.
        answer_key=AnswerKey(value={"content_hash": folder.content_hash}),
        content_hash=folder.content_hash,
    )


def _task(folder: TaskFolder, one: Round, required: Requirements, images: Images) -> Task:
    config = folder.config
    category = config.metadata.get("category")
    # A sandbox of its own may have to be built or pulled first.
    opening = one.separate.environment.build_timeout_sec if one.separate else 0.0
    metadata = {
        "difficulty": config.metadata.get("difficulty"),
        "storage_mb": config.environment.storage_mb,
        "unknown_keys": list(folder.unknown_keys),
    }
    return Task(
        id=one.id,
        instruction=one.instruction,
        category=category if isinstance(category, str) and category else None,
        requirements=required,
        verification="fresh" if one.separate else "reuse",
        grading=_grading(one, images) if one.separate else None,
        run_timeout_seconds=one.run_timeout_seconds,
        evaluation_timeout_seconds=one.verifier.timeout_sec + opening + AROUND_TESTS_SECONDS,
        metadata={key: value for key, value in metadata.items() if value},
    )


def _requirements(folder: TaskFolder, images: Images) -> Requirements:
    config, environment = folder.config, folder.config.environment
    return Requirements(
        **images.choice(environment.docker_image, folder.dockerfile),
        image_needed=True,
        build_timeout_seconds=environment.build_timeout_sec,
        workdir=environment.workdir,
        user=config.agent.user,
        resources=_resources(environment),
        network=Network(
            baseline=_policy(environment) or "public",
            run=_policy(config.agent),
            evaluation=_policy(config.verifier),
        ),
        env=variables(environment.env),
        evaluation_env=variables(config.verifier.env),
    )


def _grading(one: Round, images: Images) -> Requirements:
    assert one.separate is not None
    place, environment = one.separate, one.separate.environment
    return Requirements(
        **images.choice(place.image, place.dockerfile),
        image_needed=True,
        build_timeout_seconds=environment.build_timeout_sec,
        workdir=environment.workdir,
        resources=_resources(environment),
        network=Network(
            baseline=_policy(environment) or "public", evaluation=_policy(one.verifier)
        ),
        env=variables(environment.env),
        evaluation_env=variables(one.verifier.env),
    )


def variables(templates: Mapping[str, str]) -> dict[str, str]:
    """`${NAME:-default}` as a reference `${NAME}` if the user's shell has it, else the default.

    References stay references: their values are secrets until the sandbox needs them.
    """
    return {name: _variable(value) for name, value in templates.items()}


def _variable(value: str) -> str:
    template = _TEMPLATE.fullmatch(value)
    if template is None:
        return value
    return f"${{{template[1]}}}" if os.environ.get(template[1]) else template[2]


def _resources(environment: EnvironmentSection) -> Resources:
    """Without the disk: `storage_mb` is space a task needs, not a limit on it; see the recipe
    `harbor_daytona`."""
    return Resources(
        cpus=environment.cpus,
        memory_mb=environment.memory_mb,
        gpus=environment.gpus or None,
    )


def _policy(rule: NetworkRule) -> NetworkPolicy | None:
    match rule.network_mode:
        case None:
            return None
        case "public":
            return "public"
        case "no-network":
            return "none"
        case "allowlist":
            return AllowedHosts(allow=rule.allowed_hosts or ())


def _build(dockerfile: Path, from_images: Mapping[str, str], data_dir: Path) -> Build:
    """The task's own Dockerfile; with other images in its FROM lines, a copy of its folder."""
    text = dockerfile.read_text(encoding="utf-8", errors="surrogateescape")
    mapped = rebased(text, from_images)
    if mapped == text:
        return Build(context=str(dockerfile.parent))
    parent = data_dir / "build-contexts"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=parent, prefix=".making-"))
        copy = scratch / "context"
        shutil.copytree(dockerfile.parent, copy, symlinks=True)
        (copy / "Dockerfile").write_text(mapped, encoding="utf-8", errors="surrogateescape")
        target = parent / f"{dockerfile.parent.parent.name}-{tree_hash(copy)[:16]}"
        if not target.exists():
            copy.rename(target)
        shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise PreflightRefused(
            (f"a build context cannot be kept under {parent}: {error.strerror or error}",)
        ) from error
    return Build(context=str(target))


def rebased(dockerfile: str, from_images: Mapping[str, str]) -> str:
    """The Dockerfile with the images of its FROM lines replaced where the mapping names them."""

    def replaced(line: re.Match[str]) -> str:
        name = line[2]
        latest = name.removesuffix(":latest")
        image = from_images.get(name, from_images.get(latest, name))
        return line[1] + image

    return _FROM.sub(replaced, dockerfile)
