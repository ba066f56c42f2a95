"""Measure from Python: the same runs as the command line, in your program.

    import agentcompass

    request = agentcompass.build_run_request("quickstart", "oracle", "scripted", k=3)
    result = agentcompass.run(request)          # or: await agentcompass.arun(request)
    result.score, result.coverage, result.run_dir

Nothing is printed and no logging of yours is touched: progress goes to `listen`, log lines to the
run's folder. Several runs at once in one process are apart in everything but the limits they share
with every run on the same Prefect API.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.attempt import Detail
from agentcompass.components.contracts.errors import PreflightRefused, RequestError
from agentcompass.components.contracts.progress import Outcome, Progress
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.execution.request import RunOptions, build_request
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.reading import read_record
from agentcompass.components.results.store import RunStore
from agentcompass.flows.local import connect, in_a_thread
from agentcompass.flows.server import ServerProblem

__all__ = ["BuiltRequest", "RunResult", "arun", "build_run_request", "run"]


@dataclass(frozen=True)
class BuiltRequest:
    """What to measure. The request itself holds references; their values stand beside it."""

    request: RunRequest
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class RunResult:
    """How a run ended, and its numbers."""

    outcome: Outcome
    metrics: Metrics | None
    """None if it ended before there were any."""

    @property
    def run_dir(self) -> Path:
        return Path(self.outcome.run_dir)

    @property
    def score(self) -> float | None:
        """The headline over all planned attempts."""
        return self.metrics.headline.value if self.metrics else None

    @property
    def coverage(self) -> float:
        """Share of the planned attempts that have a score."""
        planned = self.outcome.planned - self.outcome.skipped
        return self.outcome.scored / planned if planned else 0.0

    def details(self) -> Iterator[Detail]:
        """Every task's record, one in memory at a time."""
        return RunStore(RunFolder(self.run_dir)).details()


def build_run_request(benchmark: str, harness: str, model: str, **options: Any) -> BuiltRequest:
    """The request that the command line would make of the same words.

    `options` are the options of `agentcompass run` by their names in Python: `benchmark_params`,
    `model_base_url`, `model_api_key`, `env`, `env_params`, `execution_params`, `k`, `results_dir`,
    … Configuration files apply as there. Raises RequestError.
    """
    known = RunOptions.__dataclass_fields__
    for name in options:
        if name not in known:
            raise RequestError(name, "unknown option", nearest(name, known))
    request, secrets = build_request(RunOptions(benchmark, harness, model, **options))
    return BuiltRequest(request, secrets)


def run(
    request: BuiltRequest | RunRequest, *, listen: Callable[[Progress], None] | None = None
) -> RunResult:
    """Carry out the request. In the main thread Ctrl-C ends it in order, as at the command line.

    Raises RequestError and PreflightRefused before anything is spent. Within a running event loop
    use `arun`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("an event loop runs here: use `await agentcompass.arun(request)`")
    built = _built(request)
    _connect()
    from agentcompass.flows.session import Session, Stopped

    session = Session()
    ended: Future[RunResult] = in_a_thread(
        lambda: _carry_out(built, session, listen), session.request_stop
    )
    try:
        return ended.result()
    except asyncio.CancelledError:
        raise Stopped(session.signal or signal.SIGINT) from None


async def arun(
    request: BuiltRequest | RunRequest, *, listen: Callable[[Progress], None] | None = None
) -> RunResult:
    """The same on your event loop. Cancelling it ends the run in order."""
    built = _built(request)
    await asyncio.to_thread(_connect)
    from agentcompass.flows.session import Session

    session = Session()
    running = asyncio.create_task(_carry_out(built, session, listen))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        session.request_stop(signal.SIGINT, asyncio.get_running_loop(), running)
        await asyncio.wait([running])
        raise


def _built(request: BuiltRequest | RunRequest) -> BuiltRequest:
    return request if isinstance(request, BuiltRequest) else BuiltRequest(request)


def _connect() -> None:
    try:
        connect(lambda line: None)
    except ServerProblem as problem:
        raise PreflightRefused((str(problem),)) from problem


async def _carry_out(
    built: BuiltRequest, session: Any, listen: Callable[[Progress], None] | None
) -> RunResult:
    from agentcompass.flows.attached import run_here
    from agentcompass.flows.names import tags
    from agentcompass.flows.run import evaluate
    from agentcompass.flows.together import Member, carry_out

    async def alone(request: RunRequest) -> Any:
        return await run_here(evaluate, {"request": request}, tags(request))

    if listen is not None:
        session.listen = listen
    member = Member(built.request, built.secrets, session)
    outcome = await carry_out(member, alone)
    folder = RunFolder(Path(outcome.run_dir))
    metrics = await asyncio.to_thread(read_record, folder.metrics_json, "metrics", Metrics)
    return RunResult(outcome, metrics)
