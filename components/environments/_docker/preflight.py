"""Every reason why these sandboxes could not open on this engine, told before any of them does.

Images that are present are only looked at; for absent ones the registry is asked without pulling,
within a fixed time: what could not be asked in it is logged, not refused.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.contracts.requirements import Build, Requirements
from agentcompass.components.environments._docker.build_context import (
    build_problem,
    buildkit_problem,
    dockerfile_path,
)
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.errors import (
    explained,
    one_line,
    rate_limited,
    registry_unreachable,
    transient,
)
from agentcompass.components.environments._docker.images import Images
from agentcompass.components.environments._docker.images_machine import (
    FULL_MB,
    LOW_MB,
    Machine,
    platform_problem,
)
from agentcompass.components.environments._docker.images_names import HUB, pull_name, registry_of

ENGINE_SECONDS = 10.0
LOOKING_SECONDS = 60.0
REGISTRY_SECONDS = 15.0
"""For all registries together."""
_AT_ONCE = 16
_ASKED_OF_HUB = 10
"""Docker Hub counts a question like a pull; its free limit is 100 in 6 hours."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Wanted:
    name: str
    platform: str | None


@dataclass
class _Findings:
    needed: Counter[_Wanted] = field(default_factory=Counter)
    """Image → tasks that need it."""
    problems: list[str] = field(default_factory=list)

    def of_image(self, wanted: _Wanted, problem: str) -> None:
        self.problems.append(f"image {wanted.name} ({_tasks(self.needed[wanted])}): {problem}")


async def problems(
    engine: Engine, images: Images, requirements: Sequence[Requirements]
) -> list[str]:
    """One line each; empty: nothing stands in the way."""
    try:
        async with asyncio.timeout(ENGINE_SECONDS):
            here = await images.machine()
    except TimeoutError:
        return [f"the Docker engine did not answer within {ENGINE_SECONDS:g} seconds"]
    except AgentCompassError as error:
        return [str(error)]
    findings = _Findings(problems=await _of_machine(here, requirements))
    builds = Counter(
        (required.build, required.platform) for required in requirements if required.build
    )
    for required in requirements:
        if required.image is not None and required.build is None:
            findings.needed[_Wanted(required.image, required.platform)] += 1
    if nameless := sum(not required.image and not required.build for required in requirements):
        findings.problems.append(
            f"no image is named ({_tasks(nameless)}); give one as setup.image in --env-params"
        )
    try:
        async with asyncio.timeout(LOOKING_SECONDS):
            await _add_bases(images, builds, findings)
            absent = await _look(images, here, findings)
    except TimeoutError:
        hint = f"the Docker engine took over {LOOKING_SECONDS:g} seconds to list its images"
        return [*findings.problems, hint]
    except AgentCompassError as error:
        return [*findings.problems, str(error)]
    if images.policy == "never":
        for wanted in absent:
            hint = f"not on the Docker engine, and pull is never; docker pull {wanted.name} first"
            findings.of_image(wanted, hint)
    elif absent:
        await _ask_registries(engine, here, absent, findings)
    return findings.problems


async def _of_machine(here: Machine, requirements: Sequence[Requirements]) -> list[str]:
    found: Counter[str] = Counter()
    for required in requirements:
        limits = required.resources
        if limits.memory_mb is not None and limits.memory_mb > here.memory_mb > 0:
            found[
                f"resources.memory_mb: {limits.memory_mb} is more than the Docker engine's "
                f"machine has ({here.memory_mb} MB)"
            ] += 1
        if limits.cpus is not None and limits.cpus > here.cpus > 0:
            found[
                f"resources.cpus: {limits.cpus:g} is more than the Docker engine's machine has "
                f"({here.cpus})"
            ] += 1
        if limits.gpus is not None and not here.has_gpu():
            found[
                "resources.gpus: the Docker engine gives no GPU; install the driver and the "
                "NVIDIA container toolkit on its machine"
            ] += 1
        if limits.disk_mb is not None and not here.limits_disk():
            found[
                f"resources.disk_mb: the Docker engine's storage ({here.driver} on "
                f"{here.backing or 'an unknown file system'}) cannot limit the disk of a "
                "container; leave it out, or let the engine use overlay2 on xfs with pquota"
            ] += 1
        if required.platform is not None and not here.runs(required.platform):
            found[
                f"setup.platform: {required.platform} cannot run on the Docker engine "
                f"({here.platform}); no emulation (binfmt) is installed on its machine"
            ] += 1
    lines = [f"{line} ({_tasks(count)})" for line, count in found.items()]
    free = await asyncio.to_thread(here.free_mb)
    if free is not None and free < FULL_MB:
        lines.append(
            f"only {free} MB are free in {here.data_root}, where the Docker engine stores images; "
            "free some (docker system df shows what takes it)"
        )
    elif free is not None and free < LOW_MB:
        _log.warning("only %d MB are free in %s for images and containers", free, here.data_root)
    return lines


async def _add_bases(
    images: Images, builds: Mapping[tuple[Build, str | None], int], findings: _Findings
) -> None:
    """What a Dockerfile starts from must be obtainable, unless the result is here already."""
    for (build, platform), count in builds.items():
        if problem := build_problem(build):
            findings.problems.append(f"{problem} ({_tasks(count)})")
            continue
        try:
            text = await asyncio.to_thread(
                dockerfile_path(build).read_text, encoding="utf-8", errors="replace"
            )
        except OSError as error:
            findings.problems.append(f"a Dockerfile cannot be read ({_tasks(count)}): {error}")
            continue
        if problem := buildkit_problem(text):
            path = dockerfile_path(build)
            findings.problems.append(f"{path}: {problem} ({_tasks(count)})")
            continue
        bases = [_Wanted(name, own or platform) for name, own in images.builds.bases(text).items()]
        here = [await images.present(wanted.name) for wanted in bases]
        if all(here) or await images.builds.cached(build, platform) is None:
            for wanted in bases:
                findings.needed[wanted] += count


async def _look(images: Images, here: Machine, findings: _Findings) -> list[_Wanted]:
    """The images the engine does not have (for their platform), in order."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def absent(wanted: _Wanted) -> bool:
        if wanted.platform is not None and not here.runs(wanted.platform):
            return False  # told already
        async with limit:
            image = await images.present(wanted.name)
        if image is None:
            return True
        problem = platform_problem((image.platform,), wanted.platform, here)
        if problem is None:
            return False
        if wanted.platform is not None and images.policy != "never":
            return True  # the registry may have it for that platform
        findings.of_image(wanted, problem)
        return False

    wanted = list(findings.needed)
    flags = await _together([absent(one) for one in wanted])
    return [one for one, flag in zip(wanted, flags, strict=True) if flag]


async def _ask_registries(
    engine: Engine, here: Machine, absent: Sequence[_Wanted], findings: _Findings
) -> None:
    by_registry: defaultdict[str, list[_Wanted]] = defaultdict(list)
    for wanted in absent:
        if pull_name(wanted.name) is None:
            findings.of_image(wanted, "no image of this id is on the Docker engine")
        else:
            by_registry[registry_of(wanted.name)].append(wanted)
    end = asyncio.get_running_loop().time() + REGISTRY_SECONDS
    asks = [_Registry(engine, here, name, findings, end) for name in by_registry]
    await _together([ask.about(by_registry[ask.name]) for ask in asks])


class _Registry:
    def __init__(
        self, engine: Engine, here: Machine, name: str, findings: _Findings, end: float
    ) -> None:
        self.name = name
        self._engine, self._here, self._findings = engine, here, findings
        self._end = end
        self._busy = False

    async def about(self, wanted: list[_Wanted]) -> None:
        """The first answers for the registry: one that is out of reach is told once."""
        problem = await self._ask(wanted[0])
        if problem is not None:
            count = sum(self._findings.needed[one] for one in wanted)
            names = ", ".join(one.name for one in wanted[:3])
            names += f" and {len(wanted) - 3} more" if wanted[3:] else ""
            self._findings.problems.append(
                f"registry {self.name}: {problem}; not on the engine and to come from there, "
                f"{_tasks(count)}: {names}"
            )
            return
        rest = wanted[1:_ASKED_OF_HUB] if self.name == HUB else wanted[1:]
        limit = asyncio.Semaphore(_AT_ONCE)
        unasked = len(wanted) - 1 - len(rest)

        async def one(image: _Wanted) -> bool:
            async with limit:
                if self._busy or asyncio.get_running_loop().time() > self._end:
                    return False
                return await self._ask(image) is None

        unasked += (await _together([one(image) for image in rest])).count(False)
        if unasked:
            _log.warning(
                "%d images of %s were not checked; they are pulled when needed", unasked, self.name
            )

    async def _ask(self, wanted: _Wanted) -> str | None:
        """Notes what is wrong with the image; returns what is wrong with the registry."""
        source = pull_name(wanted.name)
        assert source is not None
        try:
            async with asyncio.timeout_at(self._end):
                told: Mapping[str, Any] = await self._engine.call(
                    lambda client: client.api.inspect_distribution(source)
                )
        except TimeoutError:
            return f"no answer within {REGISTRY_SECONDS:g} seconds"
        except Exception as error:  # any of the SDK's and its transport's; judged here
            reason = str(explained(error, "asking for it"))
            if registry_unreachable(error):
                return one_line(reason.removeprefix("asking for it: "))
            if rate_limited(error):
                self._busy = True
                _log.warning("registry %s limits requests; pulls will wait for it", self.name)
            elif transient(error):
                _log.warning("image %s: %s", wanted.name, reason)
            else:
                self._findings.of_image(wanted, reason.removeprefix("asking for it: "))
            return None
        offered = tuple(
            f"{one.get('os', '')}/{one.get('architecture', '')}" for one in told["Platforms"] or ()
        )
        if problem := platform_problem(offered, wanted.platform, self._here):
            self._findings.of_image(wanted, problem)
        return None


async def _together(works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """The results in order; one that fails ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _tasks(count: int) -> str:
    return f"needed by {count} task{'' if count == 1 else 's'}"
