"""The plugs. A component satisfies one by shape, without inheriting."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel

from agentcompass.components.contracts.analysis import FinishedAttempt, Report
from agentcompass.components.contracts.attempt import (
    Artifact,
    AttemptKey,
    Detail,
    Submission,
    Verdict,
)
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.model import (
    ModelEndpoint,
    ModelReply,
    ModelRequest,
    ToolDefinition,
)
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import (
    Capabilities,
    Environment,
    Leftover,
    SandboxLabel,
)
from agentcompass.components.contracts.task import (
    Dataset,
    Primary,
    Sample,
    Solution,
    Task,
    Verification,
)
from agentcompass.components.contracts.trajectory import Step
from agentcompass.components.contracts.usage import Usage


class ArtifactDesk(Protocol):
    """Where a benchmark puts what it captured, and finds it again when it grades."""

    def save(self, name: str, content: bytes, *, path: str = "", mode: int = 0o644) -> Artifact: ...
    def read(self, artifact: Artifact) -> bytes:
        """Raises `results.write` if the stored bytes do not have the recorded sha256."""
        ...

    def note(self, code: Code, message: str) -> None:
        """Record a warning of the phase under way (an artifact left out, tampering)."""
        ...


class Benchmark(Protocol):
    """What to solve and how it is judged."""

    primary: Primary
    score_range: tuple[float, float]
    verification: Verification
    """`none`: verify gets no sandbox; `reuse`: the agent's; `fresh`: a new, empty one."""
    needs_sandbox: bool
    """The agent's stage needs a sandbox even if the harness does not (prepare, collect)."""
    prepares_grading: bool
    """In `fresh` mode `verify` prepares under the baseline network and calls
    `env.enter("evaluation")` itself before anything of the submission runs; False: the engine
    enters that phase before `verify`."""

    def load(self, data_dir: Path) -> Dataset: ...
    async def prepare(self, task: Task, env: Environment) -> None:
        """Put the task's files in place. Not called when no sandbox is open."""
        ...

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        """Complete the submission with what stands in the sandbox: files, a patch."""
        ...

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        """Judge. In `fresh` mode the sandbox is empty: prepare it, then apply the submission."""
        ...

    def solution(self, sample: Sample) -> Solution: ...


@runtime_checkable
class BenchmarkInSteps(Protocol):
    """Optional, beside Benchmark: some tasks are done in steps, one after another in the same
    sandbox. The agent is called anew for each, with that step's instruction only.

    For each step: `begin_step`, the agent, `collect` with the step's task, `end_step`. At the
    end `verify` makes one verdict of what the steps left; such a task's own `verification` is
    best "none", so that it can be judged again without the agent.
    """

    def steps(self, sample: Sample) -> tuple[Sample, ...]:
        """In order; empty: the task is done in one go.

        A step's Task has its own id, instruction, time limits, `verification` and `grading`;
        the sandbox is that of the whole task. `solution` is asked for each step.
        """
        ...

    async def begin_step(self, step: Sample, env: Environment | None) -> None:
        """Bring what the step needs, under the baseline network. Raises environment.setup."""
        ...

    async def end_step(
        self, step: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> tuple[Submission, bool]:
        """Judge the step, in the sandbox its `verification` asks for, as `verify` would.

        The submission, of all steps so far, with the step's reward as an artifact; False: the
        later steps are not begun.
        """
        ...


class FinishedRun(Protocol):
    """What stands of a run, for who wants it in another form."""

    @property
    def model(self) -> str:
        """As the user named the model."""
        ...

    def details(self) -> Iterable[Detail]:
        """Every task's record, in the run's order; read anew each time, one at a time."""
        ...

    def read(self, key: AttemptKey, artifact: Artifact) -> bytes:
        """Raises `results.write` if the stored bytes do not have the recorded sha256."""
        ...


@runtime_checkable
class Exporting(Protocol):
    """A benchmark that also hands on a run's results in a form of its own (optional)."""

    def exports(self, run: FinishedRun) -> Mapping[str, Iterable[bytes]]:
        """File name in the run's folder → its content in parts, made as they are written.

        Called when the run is aggregated, complete or not.
        """
        ...


class AttemptLog(Protocol):
    """The trajectory in the making; survives a harness that crashes half-way."""

    def tools(self, definitions: Sequence[ToolDefinition]) -> None: ...
    def system(self, text: str) -> None: ...
    def user(self, text: str) -> None: ...
    def agent(self, reply: ModelReply, *, extra: dict[str, Any] | None = None) -> None:
        """A model reply as one agent step: text, reasoning, tool calls, metrics."""
        ...

    def observe(self, call_id: str | None, content: str) -> None:
        """Add a result to the latest agent step."""
        ...

    def action(self, text: str) -> None:
        """An agent step made without a model (oracle)."""
        ...

    def note(self, code: Code, message: str) -> None:
        """Record a warning: the harness ended or was hindered by this."""
        ...

    def agent_version(self, version: str) -> None:
        """Version of the agent library or program that really runs."""
        ...

    @property
    def steps(self) -> Sequence[Step]: ...


class ModelClient(Protocol):
    """The model for one attempt: counts its usage, knows its task and attempt."""

    name: str
    """As the user named the model."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """One call, retried here and nowhere else.

        Raises AgentCompassError with a `model.*` code; every call, failed ones included, is in
        `usage`.
        """
        ...

    def endpoint(self) -> ModelEndpoint | None:
        """Where an agent could call by itself; None for built-in models."""
        ...

    @property
    def usage(self) -> Usage: ...
    @property
    def model_seconds(self) -> float: ...
    @property
    def waiting_seconds(self) -> float: ...
    @property
    def pending_seconds(self) -> float:
        """How long the call under way has been waiting for the endpoint; 0 if there is none."""
        ...

    @property
    def prices_known(self) -> bool: ...


class ModelProvider(Protocol):
    """A model for a whole run."""

    async def check(self) -> None:
        """One cheap call that proves address, key and model name; raises AgentCompassError."""
        ...

    def client(self, key: AttemptKey) -> ModelClient: ...
    async def close(self) -> None: ...
    @property
    def prices_known(self) -> bool: ...


class Needs(Frozen):
    """What a harness cannot do without."""

    sandbox: bool = True
    model: bool = True
    """Calls the model; then a key and an address are asked for and checked."""
    solution: bool = False
    """Receives the known-good solution instead of solving (`oracle` only)."""
    tools: bool = False
    """Uses tool calling."""
    protocols: tuple[str, ...] = ()
    """Model protocols it speaks by itself; empty: any, through our client."""


class Harness(Protocol):
    """The agent: tries to solve a task.

    Limits the agent ran into are `log.note`d (`harness.step_limit`, …) and end the run
    normally; a `model.*` error may be left to rise.
    """

    needs: Needs

    async def run(
        self, task: Task, env: Environment | None, model: ModelClient, log: AttemptLog
    ) -> Submission: ...


class SolutionHarness(Protocol):
    """A harness with `needs.solution`: plays back a known-good solution."""

    needs: Needs

    async def play(
        self, task: Task, solution: Solution, env: Environment | None, log: AttemptLog
    ) -> Submission: ...


class EnvironmentProvider(Protocol):
    capabilities: Capabilities

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        """Every reason why these sandboxes could not open here, one line each."""
        ...

    def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AbstractAsyncContextManager[Environment]:
        """All-or-nothing; closing is bounded, kills what runs inside and leaves nothing.

        Requirements are complete: what the user set is in them already. `commands`, `files`
        and the variables of phases are not the provider's: they are done through the protocol.
        """
        ...

    async def leftovers(self) -> tuple[Leftover, ...]:
        """What dead runs of this machine and user left, and what was kept; by our label only.

        Raises AgentCompassError(environment.start) if the provider cannot be asked.
        """
        ...

    async def remove_leftover(self, leftover: Leftover) -> bool:
        """True when nothing of it is left."""
        ...


@runtime_checkable
class KnowsImages(Protocol):
    """What an environment provider may offer beside: results made in another image are told."""

    async def image_names(self, requirements: Requirements) -> frozenset[str]:
        """All that `Environment.image` of such a sandbox could say if it were opened now; empty:
        that is not known before. Opens, pulls and builds nothing.

        Raises AgentCompassError if it cannot be asked.
        """
        ...


class Analyzer(Protocol):
    """Flags bad cases: sees each finished attempt once, in the order of the tasks, then reports.

    It keeps what it found, not what it saw: a run may be larger than memory.
    """

    def look_at(self, attempt: FinishedAttempt) -> None: ...
    def report(self) -> Report: ...


@dataclass(frozen=True)
class Component:
    """What a component file exports as COMPONENT."""

    version: str
    """Changes when the component's behaviour changes results; part of the fingerprint."""
    create: Callable[..., Any]
    """Called with an instance of `parameters`; a model's also with its ModelAccess."""
    parameters: type[BaseModel]
    requires: tuple[str, ...] = ()
    """Modules that `create` or what it makes imports when it is used, and that do not come with
    AgentCompass or the component's own package. Preflight looks for them; a module that the
    component's file imports at its top needs no naming."""
    extra: str = ""
    """The extra of the component's own distribution that brings them; "": its plain dependencies
    do."""
