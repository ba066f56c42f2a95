"""SWE-bench: mend a repository so that its hidden tests pass; one class for its data sets."""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from weakref import WeakKeyDictionary

from pydantic import Field

from agentcompass.components.benchmarks._judge import printable
from agentcompass.components.benchmarks._swebench.mirror import repository_url
from agentcompass.components.benchmarks._swebench.predictions import predictions
from agentcompass.components.benchmarks._swebench.preparation import (
    Preparation,
    Source,
    prepare_repository,
)
from agentcompass.components.benchmarks._swebench.reinstall import INSTALL_SECONDS
from agentcompass.components.benchmarks._swebench.rows import Instance, instance_hash, load_rows
from agentcompass.components.benchmarks._swebench.snapshot import Base, take_base, take_patch
from agentcompass.components.benchmarks._swebench.specs import Spec, spec_for
from agentcompass.components.benchmarks._swebench.verification import judge_patch
from agentcompass.components.contracts.attempt import Artifact, Note, Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase, RequestError
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import ArtifactDesk, Component, FinishedRun
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import (
    AnswerKey,
    Dataset,
    Primary,
    Sample,
    Solution,
    Task,
    Verification,
)
from agentcompass.components.datasets.hub import HubSource

PATCH = "patch.diff"
PREBAKED_WORKDIR = "/testbed"
SETUP_SECONDS = 1800.0
"""For making a repository and its Python environment in a sandbox: the agent's, or the grader's
before the tests' own time starts."""
INSTALLS = 2
"""How often a submission's repository is installed at most (see reinstall.py)."""
GIVEN_PATCH = ".agentcompass-solution.patch"
INSTRUCTION = """\
The current directory holds a copy of the repository {repo}. Please solve this issue in it:

<issue>
{problem}
</issue>

Change the repository's source files so that what the issue asks for is met. Tests that check it
are hidden from you and replace the repository's own when your work is judged: you may read and run
the tests that are there, and you need not change them. The Python environment for the repository
is installed. What counts is everything you changed in the working tree, committed or not.
"""
HINTS = """
Comments on the issue from before it was solved:

<hints>
{hints}
</hints>
"""


class SWEBenchParameters(BenchmarkParameters):
    data_path: str | None = None
    """A local .jsonl, .json (also .gz) or .parquet file with the data set's columns; unset: the
    hub's, kept under `--data-dir`."""
    revision: str | None = None
    """Commit, branch or tag of the hub data set; unset: the copy at hand, else the newest."""
    split: str = "test"
    """Of the hub data set."""
    hints: bool = False
    """Show the agent the comments on the issue, where the data set has them."""
    preparation: Preparation = "prebaked"
    """`prebaked`: the image holds the repository and its Python environment (/testbed);
    `git_clone`: both are made in the sandbox from a git repository."""
    repo_url_template: str = "https://github.com/{repo}.git"
    """For git_clone: where repositories are fetched from by this machine (the sandbox needs no
    access). A URL or a local folder; `{repo}` is owner/name, `{repo_dashed}` owner__name,
    `{owner}` and `{name}` its parts."""
    history_depth: Annotated[int, Field(ge=1)] | None = None
    """For git_clone: so many commits before the base; unset: all of them."""
    python: str | None = None
    """For git_clone: the Python to make the virtual environment from, inside the sandbox;
    `{version}` stands for the pinned version. Unset: python<version> on the PATH, in
    /opt/python/<version>, or under ~/.pyenv."""
    venv: str = "/opt/testbed"
    """For git_clone: the directory of the virtual environment; relative: to the workdir; empty:
    none, what the sandbox has is used."""
    packages: tuple[str, ...] | None = None
    """For git_clone: pip packages to install; unset: those pinned for the repository's version."""
    setup_commands: tuple[str, ...] | None = None
    """For git_clone: shell lines that install the repository; unset: the known ones."""
    test_command: str | None = None
    """Runs the instance's tests; unset: the known one, with the modules of its test patch."""
    test_timeout_seconds: Annotated[float, Field(gt=0)] = 1800
    """For the tests of one instance, waiting for a processor apart; at most the double passes."""


class SWEBench:
    """An instance is resolved when all of FAIL_TO_PASS and PASS_TO_PASS pass.

    Names of tests and outcomes are the official harness's; how they are found out is not: see
    verification.py and test_run.py.
    """

    primary: Primary = "correct"
    score_range = (0.0, 1.0)
    verification: Verification = "fresh"
    needs_sandbox = True
    prepares_grading = True

    def __init__(self, repository: str, parameters: SWEBenchParameters) -> None:
        self.parameters = parameters
        self._hub = HubSource(repository, f"data/{parameters.split}-*.parquet")
        self._data_dir: Path | None = None
        self._instances: dict[str, Instance] = {}
        self._bases: WeakKeyDictionary[Environment, Base] = WeakKeyDictionary()

    def load(self, data_dir: Path) -> Dataset:
        """Raises RequestError: a malformed row, or an instance whose tests cannot be run."""
        parameters = self.parameters
        rows = load_rows(self._hub, data_dir, parameters.data_path, parameters.revision)
        self._data_dir = data_dir
        self._instances = {instance.instance_id: instance for instance in rows.instances}
        for instance in rows.instances:
            if not self._spec(instance).test_commands:
                raise RequestError(
                    "benchmark-params.test_command",
                    f"no test command is known for {instance.repo} {instance.version} "
                    f"({instance.instance_id})",
                    "install agentcompass[swebench], or give test_command",
                )
        return Dataset(
            samples=tuple(map(self._sample, rows.instances)),
            source=rows.source,
            revision=rows.revision,
            content_hash=rows.content_hash,
        )

    async def prepare(self, task: Task, env: Environment) -> None:
        instance = self._instances[task.id]
        await self._prepare(instance, env, self.parameters.history_depth)
        self._bases[env] = await take_base(env, self._data)

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        """The patch, as an artifact; an empty one is kept as well."""
        if env is None:
            return submission
        there = await env.exec(["test", "-d", env.workdir], cwd="/")
        if there.exit_code == 1:
            desk.note(Code.SUBMISSION_EMPTY, "the working directory is gone")
            return submission
        base = self._bases.get(env)
        if base is None:
            raise AgentCompassError(Code.ARTIFACT_FAILED, "this sandbox was not prepared here")
        patch = await take_patch(env, base, self._data)
        for line in patch.left_out:
            desk.note(Code.ARTIFACT_LIMIT, printable(line))
        saved = await asyncio.to_thread(desk.save, PATCH, patch.content)
        return submission.model_copy(update={"artifacts": (*submission.artifacts, saved)})

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        patch = _patch_of(submission, desk)
        if not patch:
            note = Note(code=Code.SUBMISSION_EMPTY, phase=Phase.SCORE, message="the patch is empty")
            return Verdict(correct=False, notes=(note,))
        if env is None:
            raise AgentCompassError(Code.GRADER_CRASHED, "the tests need a sandbox")
        instance = self._instances[sample.task.id]
        spec, source = await self._prepare(instance, env, depth=1)
        limit = self.parameters.test_timeout_seconds
        return await judge_patch(env, instance, spec, source, patch, limit)

    def solution(self, sample: Sample) -> Solution:
        patch = self._instances[sample.task.id].patch.encode("utf-8", "surrogateescape")
        return Solution(
            files={GIVEN_PATCH: patch},
            command=f"git apply --whitespace=nowarn {GIVEN_PATCH} && rm {GIVEN_PATCH}",
        )

    def exports(self, run: FinishedRun) -> Mapping[str, Iterable[bytes]]:
        return predictions(run, PATCH)

    async def _prepare(
        self, instance: Instance, env: Environment, depth: int | None
    ) -> tuple[Spec, Source]:
        spec, source = self._spec(instance), self._source(instance, depth)
        await prepare_repository(env, instance, spec, source, self._data)
        return spec, source

    @property
    def _data(self) -> Path:
        assert self._data_dir is not None, "load comes first"
        return self._data_dir

    def _spec(self, instance: Instance) -> Spec:
        """What is known, and over it what the user said."""
        given = self.parameters
        changes: dict[str, Any] = {}
        if given.packages is not None:
            changes |= {"packages": given.packages, "pip_packages": (), "requirements": ()}
        if given.setup_commands is not None:
            commands = given.setup_commands
            changes |= {"install": commands, "install_again": commands, "before_install": ()}
        if given.test_command is not None:
            changes["test_commands"] = (given.test_command,)
        return spec_for(instance).model_copy(update=changes)

    def _source(self, instance: Instance, depth: int | None) -> Source:
        given = self.parameters
        cloned = given.preparation == "git_clone"
        return Source(
            preparation=given.preparation,
            url=repository_url(given.repo_url_template, instance.repo) if cloned else "",
            history_depth=depth,
            python=given.python or "",
            venv=given.venv if cloned else "",
        )

    def _sample(self, instance: Instance) -> Sample:
        instruction = INSTRUCTION.format(
            repo=instance.repo, problem=instance.problem_statement.strip()
        )
        if self.parameters.hints and instance.hints_text.strip():
            instruction += HINTS.format(hints=instance.hints_text.strip())
        prebaked = self.parameters.preparation == "prebaked"
        made_here = self.parameters.preparation == "git_clone"
        facts = {"repo": instance.repo, "version": instance.version}
        return Sample(
            task=Task(
                id=instance.instance_id,
                instruction=instruction,
                category=instance.repo,
                requirements=Requirements(workdir=PREBAKED_WORKDIR if prebaked else None),
                setup_timeout_seconds=SETUP_SECONDS if made_here else None,
                evaluation_timeout_seconds=2 * self.parameters.test_timeout_seconds
                + SETUP_SECONDS
                + INSTALLS * INSTALL_SECONDS,
                metadata={**facts, "base_commit": instance.base_commit},
            ),
            # Verification finds the rest by the task's id.
            answer_key=AnswerKey(value={"fail_to_pass": list(instance.fail_to_pass)}),
            content_hash=instance_hash(instance, instruction, _hashed(self._spec(instance))),
        )


def component(repository: str) -> Component:
    """The component of one data set on the hub."""
    return Component(
        version="2", create=partial(SWEBench, repository), parameters=SWEBenchParameters
    )


def _hashed(spec: Spec) -> str:
    return hashlib.sha256(spec.model_dump_json().encode()).hexdigest()


def _patch_of(submission: Submission, desk: ArtifactDesk) -> bytes:
    found: list[Artifact] = [a for a in submission.artifacts if a.name == PATCH]
    return b"".join(desk.read(artifact) for artifact in found)
