"""Tasks in the Harbor format as a benchmark: from a folder to a verdict, stage by stage."""

import asyncio
import hashlib
import logging
import os
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from agentcompass.components.benchmarks._harbor.box import Box, record
from agentcompass.components.benchmarks._harbor.judging import Terms, verdict_of
from agentcompass.components.benchmarks._harbor.outputs import collect_outputs, restore_outputs
from agentcompass.components.benchmarks._harbor.parameters import HarborParameters
from agentcompass.components.benchmarks._harbor.preparation import (
    become_healthy,
    make_folders,
    root_user,
)
from agentcompass.components.benchmarks._harbor.processes import LeftRunning
from agentcompass.components.benchmarks._harbor.samples import sample, variables
from agentcompass.components.benchmarks._harbor.sources import FIELD, find_tasks
from agentcompass.components.benchmarks._harbor.tampering import Tampering, originals, untangle
from agentcompass.components.benchmarks._harbor.task_folder import (
    TaskFolder,
    UnusableTask,
    read_task,
)
from agentcompass.components.benchmarks._harbor.verifier import Grader, run_tests
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


@dataclass(frozen=True)
class _Seen:
    """A sandbox before the agent came."""

    root: str | None
    """Who may do everything in it; None: whoever commands run as anyway."""
    box: Box
    originals: Mapping[str, bytes]


class HarborTasks:
    """Satisfies Benchmark. The verifier's place (shared or separate) is that of all its tasks."""

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
        self._folders: dict[str, TaskFolder] = {}
        # What was seen before the agent came. With the sandbox it goes.
        self._seen: WeakKeyDictionary[Environment, _Seen] = WeakKeyDictionary()

    def load(self, data_dir: Path) -> Dataset:
        found = find_tasks(self._entries, self._revision, data_dir)
        folders = self._usable(found.folders)
        self._folders = {folder.id: folder for folder in folders}
        self.verification = _common_place(folders)
        build = self.parameters.images == "build" or bool(self.parameters.from_images)
        samples = tuple(
            sample(
                folder,
                build=build,
                from_images=self.parameters.from_images,
                data_dir=data_dir.absolute(),
            )
            for folder in folders
        )
        hashes = "".join(f"{one.task.id} {one.content_hash}\n" for one in samples)
        return Dataset(
            samples=samples,
            source=found.source,
            revision=found.revision,
            content_hash=hashlib.sha256(hashes.encode()).hexdigest(),
        )

    async def prepare(self, task: Task, env: Environment) -> None:
        """Folders, health, and a record of what stands there before the agent comes."""
        folder = self._folders[task.id]
        if env.image is None:
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                "the task uses fixed places such as /tests and needs an environment made from an "
                "image: use --env docker, modal or daytona",
            )
        root = await root_user(env)
        await make_folders(env, root)
        if (check := folder.config.environment.healthcheck) is not None:
            await become_healthy(env, check)
        box = await record(env, _verifier_user(folder, root), root)
        self._seen[env] = _Seen(root, box, await originals(env, box))

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        if env is None:
            return submission
        return await collect_outputs(self._folders[task.id].config, env, submission, desk)

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        folder = self._folders[sample.task.id]
        if env is None:
            raise AgentCompassError(Code.GRADER_CRASHED, "the tests need the agent's sandbox")
        separate = self.verification == "fresh"
        if separate:
            await self.prepare(sample.task, env)
            await restore_outputs(env, submission, desk)
            await env.enter("evaluation")
        if (seen := self._seen.get(env)) is None:
            raise AgentCompassError(
                Code.GRADER_CRASHED, "this sandbox was not seen before the agent came"
            )
        grader, tampering = _grader(folder, self.parameters.left_running, seen.root), Tampering()
        if not separate:
            tampering = await untangle(
                env, seen.box, seen.originals, folder.instruction, grader.user, seen.root
            )
            for line in (*tampering.findings, *tampering.replaced):
                desk.note(Code.GRADER_TAMPERED, line)
        if tampering.replaced:
            return self.terms.worthless(self.primary, tampering)
        graded = await run_tests(grader, env, seen.box, tampering.path, alone=separate)
        for line in graded.findings:
            desk.note(Code.GRADER_TAMPERED, line)
        script = await asyncio.to_thread((folder.tests / "test.sh").read_text, "utf-8", "replace")
        return verdict_of(graded, tampering, script, self.primary, self.terms)

    def solution(self, sample: Sample) -> Solution:
        """The files of solution/ under /solution, and solve.sh run in the workdir."""
        folder = self._folders[sample.task.id]
        if not (folder.solution / "solve.sh").is_file():
            raise AgentCompassError(
                Code.FRAMEWORK_UNEXPECTED, f"{folder.id} has no solution/solve.sh for the oracle"
            )
        paths = sorted(path for path in folder.solution.rglob("*") if path.is_file())
        files = {
            f"{SOLUTION}/{path.relative_to(folder.solution).as_posix()}": path.read_bytes()
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


def _common_place(folders: list[TaskFolder]) -> Verification:
    places = {folder.config.verifier.mode for folder in folders}
    if len(places) > 1:
        separate = [f.id for f in folders if f.config.verifier.mode == "separate"]
        raise RequestError(
            FIELD,
            f"{len(separate)} of {len(folders)} tasks are graded in a separate sandbox "
            f"({separate[0]}, …), the others in the agent's",
            "run them apart: two data paths, or sample_ids",
        )
    return "fresh" if places == {"separate"} else "reuse"


def _grader(folder: TaskFolder, keep: LeftRunning, root: str | None) -> Grader:
    config = folder.config
    return Grader(
        tests=folder.tests,
        user=_verifier_user(folder, root),
        root=root,
        keep=keep,
        declared=frozenset((*config.verifier.env, *config.environment.env)),
        written=folder.reward_files,
    )


def _verifier_user(folder: TaskFolder, root: str | None) -> str | None:
    """The task's word; else the image's own user, unless the agent has another."""
    config = folder.config
    return config.verifier.user or (root if config.agent.user else None)


def _exports(templates: Mapping[str, str]) -> bytes:
    values = resolved(variables(templates), os.environ, "solution.env")
    return "".join(f"export {k}={shlex.quote(v)}\n" for k, v in values.items()).encode()
