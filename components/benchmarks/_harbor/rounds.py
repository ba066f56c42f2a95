"""What the agent is asked for and graded on at once: a whole task, or one of its steps.

A step takes from the task what it does not say itself, as in Harbor: time limits of the agent,
verifier user, variables and place; the task's tests lie under the step's own.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agentcompass.components.benchmarks._harbor.task_config import (
    ArtifactEntry,
    CollectHook,
    EnvironmentSection,
    NetworkRule,
    Step,
    VerifierSection,
)
from agentcompass.components.benchmarks._harbor.task_folder import (
    COMPOSE_FILES,
    TaskFolder,
    UnusableTask,
    check_environment,
)

TEXT_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True)
class SeparatePlace:
    """A grading sandbox of its own."""

    environment: EnvironmentSection
    """Resources, variables, network, health."""
    image: str | None
    dockerfile: Path | None
    brings_tests: bool
    """Its image holds /tests already."""


@dataclass(frozen=True)
class Round:
    folder: TaskFolder
    number: int = 0
    """Of the step, from 1; 0: the whole task."""

    @property
    def step(self) -> Step | None:
        return self.folder.config.steps[self.number - 1] if self.number else None

    @property
    def id(self) -> str:
        return f"{self.folder.id}/{self.step.name}" if self.step else self.folder.id

    @property
    def instruction(self) -> str:
        folder = self.folder
        return folder.steps_told[self.number - 1] if self.number else folder.instruction

    @property
    def outputs(self) -> str:
        """Where among the artifacts it is kept what the agent left."""
        return f"steps/{self.number}/outputs/" if self.number else "outputs/"

    @property
    def grade(self) -> str:
        """The artifact that keeps a step's reward."""
        return f"steps/{self.number}/grade.json"

    @property
    def own(self) -> Path:
        """The folder that holds the step's files, or the task's."""
        return self.folder.path / "steps" / self.step.name if self.step else self.folder.path

    @property
    def tests(self) -> tuple[Path, ...]:
        """Laid over each other in /tests, the later on top."""
        folders = dict.fromkeys((self.folder.path / "tests", self.own / "tests"))
        return tuple(path for path in folders if path.is_dir())

    @property
    def test_script(self) -> Path | None:
        scripts = [path / "test.sh" for path in self.tests if (path / "test.sh").is_file()]
        return scripts[-1] if scripts else None

    @property
    def solution(self) -> Path:
        its = self.own / "solution"
        return its if its.is_dir() else self.folder.path / "solution"

    @property
    def run_timeout_seconds(self) -> float | None:
        limit = self.step.agent.timeout_sec if self.step else None
        return limit or self.folder.config.agent.timeout_sec

    @property
    def verifier(self) -> VerifierSection:
        task = self.folder.config.verifier
        if self.step is None:
            return task
        own = self.step.verifier
        rule = own if own.network_mode is not None else task
        return own.model_copy(
            update={
                "user": own.user or task.user,
                "env": own.env or task.env,
                "network_mode": rule.network_mode,
                "allowed_hosts": rule.allowed_hosts,
            }
        )

    @property
    def collect(self) -> tuple[CollectHook, ...]:
        own = self.step.verifier.collect if self.step else ()
        return (*self.folder.config.verifier.collect, *own)

    @property
    def artifacts(self) -> tuple[ArtifactEntry, ...]:
        return (*self.folder.config.artifacts, *(self.step.artifacts if self.step else ()))

    @property
    def min_rewards(self) -> dict[str, float]:
        """What each reward must reach for a next step to begin. A plain number is for `reward`."""
        wanted = self.step.min_reward if self.step else None
        if wanted is None:
            return {}
        return {"reward": wanted} if isinstance(wanted, int | float) else dict(wanted)

    @cached_property
    def separate(self) -> SeparatePlace | None:
        """None: it is graded in the agent's own sandbox."""
        config = self.folder.config
        verifiers = [(config.verifier, self.folder.path / "tests")]
        if self.step is not None:
            verifiers.insert(0, (self.step.verifier, self.own / "tests"))
        modes = [verifier.mode for verifier, _ in verifiers if verifier.mode is not None]
        if not modes or modes[0] == "shared":
            return None
        environments = [verifier.environment for verifier, _ in verifiers]
        environment = next(filter(None, environments), config.environment)
        for verifier, tests in verifiers:
            image = verifier.environment.docker_image if verifier.environment else None
            dockerfile = tests / "Dockerfile" if (tests / "Dockerfile").is_file() else None
            if image or dockerfile:
                return SeparatePlace(environment, image, dockerfile, brings_tests=True)
        return SeparatePlace(
            environment, config.environment.docker_image, self.folder.dockerfile, False
        )

    def test_texts(self) -> list[bytes]:
        """Files of the tests, but for large ones."""
        return [
            path.read_bytes()
            for folder in self.tests
            for path in folder.rglob("*")
            if path.is_file() and path.stat().st_size < TEXT_MAX_BYTES
        ]

    @cached_property
    def reward_files(self) -> frozenset[str]:
        """Of reward.json and reward.txt those that a text of the tests speaks of."""
        texts = self.test_texts()
        return frozenset(
            name
            for name in ("reward.json", "reward.txt")
            if any(name.encode() in text for text in texts)
        )


def rounds_of(folder: TaskFolder) -> tuple[Round, ...]:
    """The steps, or the whole task. Raises UnusableTask for one that cannot be graded here."""
    count = len(folder.config.steps)
    rounds = tuple(Round(folder, number) for number in range(1, count + 1)) or (Round(folder),)
    for one in rounds:
        _check(one)
    return rounds


def _check(one: Round) -> None:
    config, step = one.folder.config, one.step
    which = f"step {step.name!r} " if step else ""
    services = {hook.service for hook in one.collect} | {
        entry.service or "main" for entry in one.artifacts
    }
    if services - {"main"}:
        raise UnusableTask(
            f"{which}collects from another container ({sorted(services - {'main'})[0]})"
        )
    place = one.separate
    if one.test_script is None and not (place and place.brings_tests):
        raise UnusableTask(f"{which}has no tests/test.sh")
    if place is not None:
        check_environment(place.environment, f"{which}is graded in a sandbox that ")
        if any((tests / name).is_file() for tests in one.tests for name in COMPOSE_FILES):
            raise UnusableTask(
                f"{which}is graded in several containers (tests/ has a compose file)"
            )
    if step is None:
        return
    if step.agent.user not in (None, config.agent.user):
        raise UnusableTask(f"{which}has another user for the agent; one for all steps is offered")
    rules: list[tuple[str, NetworkRule, NetworkRule]] = [("agent", step.agent, config.agent)]
    if place is None:
        rules.append(("verifier", step.verifier, config.verifier))
    for who, own, whole in rules:
        same = (own.network_mode, own.allowed_hosts) == (whole.network_mode, whole.allowed_hosts)
        if own.network_mode is not None and not same:
            raise UnusableTask(f"{which}has a network of its own for the {who}; the task's is used")
