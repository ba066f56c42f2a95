"""The live run, shared by the sub-flows of one process and never handed to Prefect.

Prefect stores the parameters of flows; secrets and payloads must not be among them. So the run
travels in a context variable, which reaches sub-flows and Prefect tasks run in its context.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from prefect.client.schemas.objects import State

from agentcompass.components.configuration.secrets import holding
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.contracts.run import RunPlan, RunRequest
from agentcompass.components.contracts.task import Dataset, Sample
from agentcompass.components.execution import continuing, dependencies, judged_again
from agentcompass.components.execution.board import Board
from agentcompass.components.execution.conclusion import conclude
from agentcompass.components.execution.fingerprint import fingerprint
from agentcompass.components.execution.open_run import OpenRun
from agentcompass.components.execution.parts import Parts, assemble
from agentcompass.components.execution.plan import resolve
from agentcompass.components.execution.rescoring import (
    reserve_beside,
    resolve_rescoring,
    source_of,
)
from agentcompass.components.execution.schedule import Ending
from agentcompass.components.execution.source import find_source, finished
from agentcompass.components.results.lease import RunLease
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.paths import RunFolder, namespace, reserve
from agentcompass.components.results.score_so_far import ScoreSoFar
from agentcompass.components.results.store import RunStore
from agentcompass.flows import retried
from agentcompass.flows.blocks import key_of_block
from agentcompass.flows.handover import HandOver
from agentcompass.flows.session import Session, session

EndState = Literal["finished", "failed", "timed_out", "interrupted"]


class LiveRun:
    """A run under way. The flow fills it in from top to bottom."""

    dataset: Dataset
    samples: tuple[Sample, ...]
    open: OpenRun
    handover: HandOver
    stages: Sequence[State[Any]]
    """How the sub-flows `attempts` and `scoring` ended."""
    metrics: Metrics

    def __init__(self, request: RunRequest, session: Session) -> None:
        self.plan: RunPlan = resolve_rescoring(request) if request.rescore else resolve(request)
        self.parts: Parts = assemble(self.plan)
        self.session = session
        self.started_at = datetime.now(UTC)
        self.ending: Ending | Literal["running"] = "running"
        self.failure: Exception | None = None
        self.working_at_now: set[str] = set()
        self.worked_at: set[str] = set()
        """Sub-flows whose work began, and those whose work is done."""
        self._lease: RunLease | None = None
        session.run = self

    @property
    def store(self) -> RunStore:
        return self.open.store

    @property
    def board(self) -> Board:
        return self.open.board

    def make_folder(self, hand_over: Callable[[Path], HandOver]) -> None:
        """Reserve the run's folder and take over what stands of an earlier run, or go on in the
        folder that it had when it is retried. Blocking.

        Only a run that passed preflight has a folder.
        """
        request, current = self.plan.request, fingerprint(self.plan)
        had = retried.folder(self._namespace)
        if had and request.rescore:
            raise RequestError(
                "retry", "a rescored run is not gone on with", "agentcompass rescore RUN_DIR again"
            )
        source, folder = (None, had) if had else self._places(current)
        self._lease = RunLease(folder.lease)
        self._lease.take()
        store = RunStore(folder, Masker(self.parts.secrets_with(self.samples)))
        self.session.log.write_to(folder.log, store.masker)
        self.session.attempts_began = True  # from here on there is something to keep
        self.handover = hand_over(folder.stages)
        planned = len(self.samples) * request.execution.attempts.k
        board = Board(planned, self._score_so_far())
        self.open = OpenRun(self.plan, self.parts, current, store, board, self.handover)
        if had is not None:
            continuing.go_on(self.open, self.samples)
        elif request.rescore is not None and source is not None:
            judged_again.take_over(self.open, source, self.samples)
        elif source is not None:
            self.open.adopt_from(source, self.samples)

    def _score_so_far(self) -> ScoreSoFar:
        attempts, counting = self.plan.request.execution.attempts, self.parts.benchmark_parameters
        return ScoreSoFar(
            {sample.task.id: sample.task.category for sample in self.samples},
            k=attempts.k,
            strategy=attempts.strategy,
            primary=self.plan.primary,
            unscored=counting.unscored,
            aggregation=counting.aggregation,
            score_range=self.parts.benchmark.score_range,
        )

    def _places(self, current: Mapping[str, object]) -> tuple[RunStore | None, RunFolder]:
        """The run that work is taken over from, and the new run's folder."""
        request, started = self.plan.request, self.started_at.astimezone()
        if request.rescore is not None:
            return source_of(request), reserve_beside(request, started)
        reuse = request.runtime.reuse
        done = partial(
            finished, plan=self.plan, verification=self.parts.verification, samples=self.samples
        )
        source = find_source(self._namespace, reuse, current, done) if reuse else None
        return source, reserve(self._namespace, request.runtime.run_id, started)

    @property
    def _namespace(self) -> Path:
        request = self.plan.request
        return namespace(
            Path(request.runtime.results_dir).expanduser().absolute(),
            request.runtime.run_name,
            request.model.id,
            request.benchmark.id,
            request.harness.id,
        )

    @property
    def attempts_ended(self) -> bool:
        return self.ending != "running" or self.failure is not None

    def close(self) -> None:
        if self._lease is not None:
            self._lease.release()

    def compute(self) -> None:
        """From the recorded attempts to the numbers, in every form they are read in. Blocking."""
        self.metrics = conclude(
            self.plan,
            self.parts.benchmark_parameters,
            self.dataset,
            self.samples,
            self.store,
            "" if self.state == "finished" else f"{self.state}. {self.problem}".rstrip(". "),
            self.parts.benchmark,
        )
        if self.plan.request.rescore is not None:
            judged_again.write_changes(source_of(self.plan.request), self.store)

    @contextmanager
    def working_at(self, sub_flow: str) -> Iterator[None]:
        """What ends a sub-flow early is the run's failure and stops the others; it rises."""
        self.working_at_now.add(sub_flow)
        try:
            yield
        except Exception as error:
            self.failure = self.failure or error
            self.session.stop.set()
            raise
        self.worked_at.add(sub_flow)

    @property
    def state(self) -> EndState:
        if self.failure is not None or self.ending == "running":
            return "failed"
        return self.ending

    @property
    def problem(self) -> str:
        if self.state == "timed_out":
            limit = self.plan.request.runtime.timeout_seconds
            return f"the run's time-out of {limit:g} s came; what was finished is kept"
        return str(self.failure or "")

    def conclude(self) -> Outcome:
        """How the run ended; the session keeps it, whatever Prefect makes of the flow's state."""
        self.session.outcome = self.outcome
        return self.session.outcome

    @property
    def outcome(self) -> Outcome:
        """How the run ends as things stand."""
        progress = self.board.progress
        return Outcome(
            run_dir=str(self.store.folder.root),
            state=self.state,
            planned=progress.planned,
            scored=progress.scored,
            skipped=progress.skipped,
            problem=self.problem,
            signal=self.session.signal,
        )


_run: ContextVar[LiveRun | None] = ContextVar("agentcompass_run", default=None)


@asynccontextmanager
async def live(request: RunRequest) -> AsyncIterator[LiveRun]:
    """Within this block `current()` is this run."""
    with holding(await key_of_block(request)):
        await asyncio.to_thread(dependencies.ensure, request)
        run = LiveRun(request, session())
        token = _run.set(run)
        try:
            yield run
        finally:
            _run.reset(token)
            run.close()
            await run.parts.model.close()


def current() -> LiveRun:
    run = _run.get()
    if run is None:
        raise RuntimeError("this flow is a part of `evaluate` and does not run alone")
    return run
