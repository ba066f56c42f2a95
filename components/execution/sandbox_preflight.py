"""What the tasks' sandboxes need, against what the provider can do. One line a problem, with the
number of tasks it touches; then the provider's own checks."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.requirements import Requirements, SandboxPhase, network_kind
from agentcompass.components.contracts.sandbox import Capabilities
from agentcompass.components.contracts.task import Sample
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.execution.parts import Parts

PHASES: tuple[SandboxPhase, ...] = ("baseline", "run", "evaluation")


class _Sandbox(NamedTuple):
    """One that is to be opened."""

    required: Requirements
    phases: tuple[SandboxPhase, ...]
    """That it goes through. Empty: it is opened with the policy of its own phases."""
    variables: tuple[str, ...]
    """Of phases, that are read for it."""


async def sandbox_problems(
    parts: Parts, environment_id: str, samples: Sequence[Sample], *, rescoring: bool = False
) -> list[str]:
    """Of the sandboxes that are to be opened, if any is; when rescoring, none is an agent's."""
    counted: Counter[str] = Counter()
    required: list[Requirements] = []
    for sample in samples:
        try:
            sandboxes = _sandboxes(parts, sample, rescoring)
        except RequestError as error:
            counted[str(error)] += 1
            continue
        found: set[str] = set()
        for wanted, phases, variables in sandboxes:
            required.append(wanted)
            found.update(_beyond(wanted, parts.environments.capabilities, phases), _files(wanted))
            found.update(_variables(wanted, variables))
        counted.update(f"{environment_id} {problem}" for problem in found)
    if not (required or counted):
        return []
    problems = [*_ignored(parts.environment_parameters, parts.environments.capabilities)]
    for problem, count in counted.items():
        problems.append(problem if count == len(samples) else f"{problem} ({count} tasks)")
    own = await parts.environments.preflight(required)
    return [*problems, *(problem for problem in own if problem not in problems)]


def _sandboxes(parts: Parts, sample: Sample, rescoring: bool) -> list[_Sandbox]:
    """A task's: the agent's, and the graders' that are fresh and not just like it."""
    steps = [step.task for step in parts.steps(sample)]
    if steps and rescoring:
        return []  # they were judged while the agent worked, and are not judged again
    judged = steps or [sample.task]
    agents = not rescoring and (parts.harness.needs.sandbox or parts.benchmark.needs_sandbox)
    graders = [
        _Sandbox(parts.grading_requirements(task), (), ("evaluation_env",))
        for task in judged
        if parts.verification(task) == "fresh" and not (agents and task.grading is None)
    ]
    if not agents:
        return graders
    stays = any(parts.verification(task) == "reuse" for task in judged)
    wanted, phases = parts.requirements(sample.task), PHASES if stays else PHASES[:2]
    return [_Sandbox(wanted, phases, ("run_env", "evaluation_env")), *graders]


def _beyond(
    wanted: Requirements, can: Capabilities, phases: tuple[SandboxPhase, ...]
) -> Iterator[str]:
    """What the provider would have to ignore: refused, never widened."""
    if wanted.image_needed and not can.images:
        yield "has no images, and these tasks cannot do without one; use --env docker"
    if wanted.build is not None and not can.builds:
        yield "cannot build images (setup.build); give setup.image"
    if wanted.user is not None and not can.users:
        yield f"cannot run commands as user {wanted.user!r}"
    for name, value in wanted.resources:
        if value is not None and name not in can.resources:
            yield f"cannot limit resources.{name} (asked for: {value:g})"
    policies = [wanted.network.during(phase) for phase in PHASES]
    for kind in sorted({kind for policy in policies if (kind := network_kind(policy))}):
        if kind not in can.network:
            yield f"cannot enforce a network policy of kind {kind!r} (network)"
    in_one = {wanted.network.during(phase) for phase in phases}
    if not can.network_phases and len(in_one) > 1:
        yield "cannot change the network policy of an open sandbox: give all phases the same one"


def _files(wanted: Requirements) -> Iterator[str]:
    for target, source in wanted.files.items():
        try:
            there = user_path(source, "env-params.setup.files").exists()
        except RequestError as error:
            yield f"is to be given {target}: {error}"
            continue
        if not there:
            yield f"is to be given {source} as {target} (setup.files), which does not exist"


def _variables(wanted: Requirements, fields: tuple[str, ...]) -> Iterator[str]:
    """Of the phases: the provider reads only what holds in all of them."""
    for field in fields:
        try:
            resolved(getattr(wanted, field), os.environ, f"env-params.{field}")
        except RequestError as error:
            yield f"cannot be given its variables: {error}"


def _ignored(parameters: EnvironmentParameters, can: Capabilities) -> Iterator[str]:
    """What the user asked for outright. A task's image is a wish, theirs an order."""
    if parameters.setup.image is not None and not can.images:
        yield "env-params.setup.image: this environment has no images; use --env docker"
    if parameters.setup.platform is not None and not can.images:
        yield "env-params.setup.platform: this environment has no images; use --env docker"
