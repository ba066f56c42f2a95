"""The live run, shared by the sub-flows of one process and never handed to Prefect.

Prefect stores the parameters of flows; secrets and payloads must not be among them. So the run
travels in a context variable, which reaches sub-flows and Prefect tasks run in its context.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from agentcompass.components.contracts.progress import Outcome, Progress
from agentcompass.components.contracts.run import RunPlan, RunRequest
from agentcompass.components.contracts.task import Dataset, Sample
from agentcompass.components.execution.board import Board
from agentcompass.components.execution.parts import Parts, assemble
from agentcompass.components.execution.plan import resolve
from agentcompass.components.execution.schedule import Ending
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.paths import namespace, reserve
from agentcompass.components.results.store import RunStore
from agentcompass.flows.handover import HandOver
from agentcompass.flows.logs import RunLog

EndState = Literal["finished", "failed", "timed_out", "interrupted"]


@dataclass
class Session:
    """The starter's side of a run: who listens, and the wish to stop."""

    listen: Callable[[Progress], None] = lambda progress: None
    note: Callable[[str], None] = lambda line: None
    log: RunLog = field(default_factory=RunLog)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a signal: end the attempts, keep what is finished."""
    outcome: Outcome | None = None


class LiveRun:
    """A run under way. The flow fills it in from top to bottom."""

    dataset: Dataset
    samples: tuple[Sample, ...]
    store: RunStore
    board: Board
    handover: HandOver
    metrics: Metrics

    def __init__(self, request: RunRequest, session: Session) -> None:
        self.plan: RunPlan = resolve(request)
        self.parts: Parts = assemble(self.plan)
        self.session = session
        self.started_at = datetime.now(UTC)
        self.ending: Ending | Literal["running"] = "running"
        self.failure: Exception | None = None

    @property
    def planned(self) -> int:
        return len(self.samples) * self.plan.request.execution.attempts.k

    def open(self, handover: HandOver) -> None:
        """Reserve the run's folder. Only a run that passed preflight has one."""
        request = self.plan.request
        parent = namespace(
            Path(request.runtime.results_dir).expanduser().absolute(),
            request.runtime.run_name,
            request.model.id,
            request.benchmark.id,
            request.harness.id,
        )
        folder = reserve(parent, request.runtime.run_id, self.started_at.astimezone())
        self.store = RunStore(folder, Masker(self.parts.secrets))
        self.board = Board(self.planned)
        self.handover = handover
        self.session.log.write_to(folder.log, self.store.masker)

    @contextmanager
    def noting_failure(self) -> Iterator[None]:
        """What ends a sub-flow early is the run's failure and stops the others; it rises."""
        try:
            yield
        except Exception as error:
            self.failure = self.failure or error
            self.session.stop.set()
            raise

    @property
    def state(self) -> EndState:
        if self.failure is not None or self.ending == "running":
            return "failed"
        return self.ending

    def conclude(self) -> Outcome:
        """How the run ended; the session keeps it, whatever Prefect makes of the flow's state."""
        progress = self.board.progress
        self.session.outcome = Outcome(
            run_dir=str(self.store.folder.root),
            state=self.state,
            planned=progress.planned,
            scored=progress.scored,
            skipped=progress.skipped,
            problem=str(self.failure or ""),
        )
        return self.session.outcome


_session: ContextVar[Session | None] = ContextVar("agentcompass_session", default=None)
_run: ContextVar[LiveRun | None] = ContextVar("agentcompass_run", default=None)


@contextmanager
def listening(session: Session) -> Iterator[Session]:
    """Runs started in this block report to this session."""
    token = _session.set(session)
    try:
        yield session
    finally:
        _session.reset(token)


@asynccontextmanager
async def live(request: RunRequest) -> AsyncIterator[LiveRun]:
    """Within this block `current()` is this run."""
    run = LiveRun(request, _session.get() or Session())
    token = _run.set(run)
    try:
        yield run
    finally:
        _run.reset(token)
        await run.parts.model.close()


def current() -> LiveRun:
    run = _run.get()
    if run is None:
        raise RuntimeError("this flow is a part of `evaluate` and does not run alone")
    return run
