"""Tasks in the Harbor format as a benchmark: from a folder to a verdict, stage by stage."""

import asyncio
import hashlib
import logging
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from agentcompass.components.benchmarks._harbor.grading import (
    Seen,
    grade_in_place,
    grade_separately,
    look_over,
    verifier_user,
)
from agentcompass.components.benchmarks._harbor.judging import Grade, Terms, verdict_of
from agentcompass.components.benchmarks._harbor.outputs import collect_outputs, restore_outputs
from agentcompass.components.benchmarks._harbor.parameters import HarborParameters
from agentcompass.components.benchmarks._harbor.preparation import (
    become_healthy,
    make_folders,
    root_user,
)
from agentcompass.components.benchmarks._harbor.rounds import Round, rounds_of
from agentcompass.components.benchmarks._harbor.samples import (
    Images,
    sample,
    step_samples,
    variables,
)
from agentcompass.components.benchmarks._harbor.sources import FIELD, find_tasks
from agentcompass.components.benchmarks._harbor.stepping import begin, rolled_up, shortfall
from agentcompass.components.benchmarks._harbor.task_config import Healthcheck
from agentcompass.components.benchmarks._harbor.task_folder import (
    TaskFolder,
    UnusableTask,
    read_task,
)
from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.attempt import Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import (
    Dataset,
    Primary,
    Sample,
    Solution,
    Task,
    Verification,
)

log = logging.getLogger(__name__)

SOLUTION = "/solution"


class HarborTasks:
    """Satisfies Benchmark and BenchmarkInSteps. Where it is graded, each task says."""

    needs_sandbox = True
    prepares_grading = True

    def __init__(
        self,
        parameters: HarborParameters,
        entries: tuple[str, ...],
        revision: str | None,
        primary: Primary,
        terms: Terms,
    ) -> None:
        self.primary, self.terms = primary, terms
        self.score_range = terms.score_range
        self.verification: Verification = "reuse"
        self.parameters, self._entries, self._revision = parameters, entries, revision
        self._rounds: dict[str, Round] = {}
        """By the id of a Task: a whole one's or a step's."""
        self._steps: dict[str, tuple[Sample, ...]] = {}
        self._folders: dict[str, TaskFolder] = {}
        # What was seen before the agent came. With the sandbox it goes.
        self._seen: WeakKeyDictionary[Environment, Seen] = WeakKeyDictionary()

    def load(self, data_dir: Path) -> Dataset:
        found = find_tasks(self._entries, self._revision, data_dir)
        images = Images(
            build=self.parameters.images == "build" or bool(self.parameters.from_images),
            from_images=self.parameters.from_images,
            data_dir=data_dir.absolute(),
        )
        samples = []
        for folder in self._usable(found.folders):
            rounds = rounds_of(folder)
            whole = sample(folder, rounds, images)
            self._folders[folder.id] = folder
            self._rounds |= {one.id: one for one in rounds}
            self._steps[folder.id] = step_samples(whole, rounds, images)
            samples.append(whole)
        hashes = "".join(f"{one.task.id} {one.content_hash}\n" for one in samples)
        return Dataset(
            samples=tuple(samples),
            source=found.source,
            revision=found.revision,
            content_hash=hashlib.sha256(hashes.encode()).hexdigest(),
        )

    async def prepare(self, task: Task, env: Environment) -> None:
        """Folders, health, and a record of what stands there before the agent comes."""
        folder = self._folders[task.id]
        steps = [self._rounds[step.task.id] for step in self._steps[task.id]]
        rounds = steps or [self._rounds[task.id]]
        graded_here = [one for one in rounds if one.separate is None]
        await self._get_ready(env, folder.config.environment.healthcheck, graded_here)

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        if env is None:
            return submission
        return await collect_outputs(self._rounds[task.id], env, submission, desk)

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        if steps := self._steps[sample.task.id]:
            places = [self._rounds[step.task.id].grade for step in steps]
            kept = {artifact.name: artifact for artifact in submission.artifacts}
            grades = [
                Grade.model_validate_json(await asyncio.to_thread(desk.read, kept[place]))
                for place in places
                if place in kept
            ]
            grade = rolled_up(self._folders[sample.task.id].config, grades, self.terms)
        else:
            grade, _ = await self._grade(self._rounds[sample.task.id], submission, env, desk)
        return verdict_of(grade, self.primary, self.terms)

    def steps(self, sample: Sample) -> tuple[Sample, ...]:
        return self._steps[sample.task.id]

    async def begin_step(self, step: Sample, env: Environment | None) -> None:
        assert env is not None  # needs_sandbox
        await begin(self._rounds[step.task.id], env, self._seen[env])

    async def end_step(
        self, step: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> tuple[Submission, bool]:
        """The step's reward and evidence, kept as `steps/<number>/grade.json`."""
        one = self._rounds[step.task.id]
        grade, sound = await self._grade(one, submission, env, desk)
        content = grade.model_dump_json(indent=2).encode()
        artifact = await asyncio.to_thread(desk.save, one.grade, content)
        kept = submission.model_copy(update={"artifacts": (*submission.artifacts, artifact)})
        return kept, sound and not shortfall(one, grade)

    async def _grade(
        self, one: Round, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> tuple[Grade, bool]:
        """And whether what the sandbox says later would count."""
        if env is None:
            raise AgentCompassError(Code.GRADER_CRASHED, "the tests need a sandbox")
        if one.separate is not None:
            seen = await self._get_ready(env, one.separate.environment.healthcheck, [one])
            await restore_outputs(one, env, submission, desk)
            await env.enter("evaluation")
            return await grade_separately(one, env, seen, self.terms, desk), True
        if (before := self._seen.get(env)) is None:
            raise AgentCompassError(
                Code.GRADER_CRASHED, "this sandbox was not seen before the agent came"
            )
        keep = self.parameters.left_running
        return await grade_in_place(one, env, before, keep, self.terms, desk)

    async def _get_ready(
        self, env: Environment, check: Healthcheck | None, graded_here: Sequence[Round]
    ) -> Seen:
        if env.image is None:  # preflight refuses it; this keeps hands off the user's machine
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                "the task uses fixed places such as /tests and needs an environment made from an "
                "image: use --env docker, modal or daytona",
            )
        root = await root_user(env)
        await make_folders(env, root)
        if check is not None:
            await become_healthy(env, check)
        users = dict.fromkeys(verifier_user(one, root) for one in graded_here)
        seen = self._seen[env] = await look_over(env, root, users)
        return seen

    def solution(self, sample: Sample) -> Solution:
        """The files of solution/ under /solution, and solve.sh run in the workdir."""
        one = self._rounds.get(sample.task.id)
        if one is None or not (one.solution / "solve.sh").is_file():
            raise AgentCompassError(
                Code.FRAMEWORK_UNEXPECTED,
                f"{sample.task.id} has no solution/solve.sh for the oracle",
            )
        folder, solution = one.folder, one.solution
        paths = sorted(path for path in solution.rglob("*") if path.is_file())
        files = {
            f"{SOLUTION}/{path.relative_to(solution).as_posix()}": path.read_bytes()
            for path in paths
        }
        command = f"chmod +x {SOLUTION}/solve.sh && {SOLUTION}/solve.sh"
        if folder.config.solution.env:
            # In a file, not in the command: the command is shown in the trajectory.
            files[f"{SOLUTION}/.variables"] = _exports(folder.config.solution.env)
            command = f". {SOLUTION}/.variables && {command}"
        return Solution(files=files, command=command)

    def _usable(self, paths: tuple[Path, ...]) -> list[TaskFolder]:
        wanted = self.parameters.sample_ids
        folders, problems, unknown = [], [], Counter[str]()
        for path in paths:
            try:
                folder = read_task(path)
                rounds_of(folder)
            except UnusableTask as error:
                if wanted is None or path.name in wanted:
                    problems.append(f"{path.name}: {error}")
                continue
            folders.append(folder)
            unknown.update(folder.unknown_keys)
        if problems and not self.parameters.skip_unsupported:
            more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
            raise RequestError(
                FIELD,
                "; ".join(problems[:3]) + more,
                "leave them out with benchmark-params.skip_unsupported or choose sample_ids",
            )
        for line in problems:
            log.warning("left out: %s", line)
        for key, count in sorted(unknown.items()):
            log.warning("task.toml: unknown key %s in %d tasks is ignored", key, count)
        if not folders:
            raise RequestError(FIELD, "no task there can be used", "; ".join(problems[:3]))
        return folders


def _exports(templates: Mapping[str, str]) -> bytes:
    values = resolved(variables(templates), os.environ, "solution.env")
    return "".join(f"export {k}={shlex.quote(v)}\n" for k, v in values.items()).encode()
