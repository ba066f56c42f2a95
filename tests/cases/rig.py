"""A whole run in this process and without Prefect: the real parts, each stage awaited directly.

Whatever a test is about, `measure` also proves of its run that every file is strict JSON or plain
UTF-8, that the classes of attempts add up, and that no sandbox is left.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas

from agentcompass.components.configuration.secrets import HELD_KEY, holding
from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.progress import Progress
from agentcompass.components.contracts.protocols import Benchmark, EnvironmentProvider
from agentcompass.components.contracts.run import (
    AttemptPlan,
    Choice,
    ExecutionSettings,
    ModelSpec,
    RunPlan,
    RunRequest,
    RuntimeSettings,
    SecretReference,
)
from agentcompass.components.contracts.task import Dataset, Sample
from agentcompass.components.contracts.trajectory import Step
from agentcompass.components.execution import analysis, conclusion, prepare
from agentcompass.components.execution.board import Board
from agentcompass.components.execution.fingerprint import fingerprint
from agentcompass.components.execution.open_run import OpenRun
from agentcompass.components.execution.parts import Parts, assemble
from agentcompass.components.execution.plan import resolve
from agentcompass.components.execution.preflight import preflight
from agentcompass.components.execution.schedule import Ending, units, work_through
from agentcompass.components.execution.unit import run_unit
from agentcompass.components.models._litellm import loaded
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.paths import namespace, reserve
from agentcompass.components.results.store import RunStore
from tests.cases.strict_json import strict
from tests.components.execution.stages import Directly

KEY = "zz-key-of-the-tests"


@dataclass(frozen=True)
class UnderWay:
    """What a test sees of a run while it goes."""

    store: RunStore
    board: Board
    stop: asyncio.Event

    @property
    def progress(self) -> Progress:
        return self.board.progress

    def on_disk(self) -> set[str]:
        """The ids of the tasks with a recorded attempt."""
        paths = self.store.folder.tasks.glob("*/detail.json")
        return {json.loads(path.read_text(encoding="utf-8"))["task_id"] for path in paths}


Watch = Callable[[UnderWay], Awaitable[None]]


@dataclass(frozen=True)
class Ran:
    """A run that ended."""

    plan: RunPlan
    benchmark_parameters: BenchmarkParameters
    dataset: Dataset
    samples: tuple[Sample, ...]
    store: RunStore
    ending: Ending | None
    failure: Exception | None
    """What stopped the attempts, as `flows` keeps it."""
    metrics: Metrics
    seconds: float
    judge: Benchmark

    @property
    def folder(self) -> Path:
        return self.store.folder.root

    @property
    def summary(self) -> str:
        return self.store.folder.summary_md.read_text(encoding="utf-8")

    def conclude(self) -> Metrics:
        return conclusion.conclude(
            self.plan,
            self.benchmark_parameters,
            self.dataset,
            self.samples,
            self.store,
            benchmark=self.judge,
        )

    def records(self) -> dict[str, AttemptRecord]:
        """By `str(key)`, such as "toy-1 #1"."""
        return {str(r.key): r for detail in self.store.details() for r in detail.attempts}

    def record(self, task_id: str, index: int = 1) -> AttemptRecord:
        return self.records()[f"{task_id} #{index}"]

    def codes(self) -> dict[str, str | None]:
        """The failure code of each attempt; None: it is scored."""
        return {
            name: record.failure.code.value if record.failure else None
            for name, record in self.records().items()
        }

    def steps(self, task_id: str, index: int = 1) -> tuple[Step, ...]:
        trajectory = self.store.read_trajectory(AttemptKey(task_id=task_id, index=index))
        assert trajectory is not None
        return trajectory.steps

    def shown(self, task_id: str, index: int = 1) -> list[str]:
        """What the agent was shown of its calls, in order."""
        return [
            result.content or ""
            for step in self.steps(task_id, index)
            for result in (step.observation.results if step.observation else ())
        ]


def ask(
    folder: Path,
    benchmark: str,
    harness: str,
    base_url: str = "",
    *,
    model: str = "my-model",
    protocol: str = "openai-chat",
    k: int = 1,
    benchmark_params: Mapping[str, Any] | None = None,
    harness_params: Mapping[str, Any] | None = None,
    model_params: Mapping[str, Any] | None = None,
    run_name: str = "",
    **execution: Any,
) -> RunRequest:
    """A request whose results and sandboxes live under `folder`. `execution`: its settings."""
    boxes = tempfile.mkdtemp(prefix="boxes-", dir=folder)
    return RunRequest(
        benchmark=Choice(id=benchmark, params=benchmark_params or {}),
        harness=Choice(id=harness, params=harness_params or {}),
        model=ModelSpec(
            id=model,
            base_url=base_url,
            api_key=SecretReference(env=HELD_KEY),
            api_protocol=(protocol,) if base_url else (),
            params=model_params or {},
        ),
        environment=Choice(id="host_process", params={"temp_dir": boxes}),
        execution=ExecutionSettings(attempts=AttemptPlan(k=k), **execution),
        runtime=RuntimeSettings(results_dir=str(folder / "results"), run_name=run_name),
    )


def measure(
    request: RunRequest,
    benchmark: Benchmark | None = None,
    *,
    environments: Callable[[EnvironmentProvider], EnvironmentProvider] | None = None,
    watch: Watch | None = None,
    reuse: Ran | None = None,
    may_stop: bool = False,
) -> Ran:
    """Carry the request out. `benchmark` takes the place of the one that was asked for,
    `environments` wraps the provider, `watch` runs beside the attempts until they end, and what
    stands of `reuse` is taken over. What stops a run is `failure` if it `may_stop`, else it rises.
    """
    with holding({HELD_KEY: KEY}):
        plan, parts = _parts(request, benchmark)
        if environments is not None:
            parts = replace(parts, environments=environments(parts.environments))
        reused = None if reuse is None else reuse.store
        ran = asyncio.run(_measured(plan, parts, watch, reused))
    if ran.failure is not None and not may_stop:
        raise ran.failure
    assert_sound(ran)
    return ran


def problems(request: RunRequest, benchmark: Benchmark | None = None) -> tuple[str, ...]:
    """What preflight says of the request."""

    async def check() -> tuple[str, ...]:
        try:
            _, samples = prepare.load_samples(plan, parts)
            return await preflight(plan, parts, samples)
        finally:
            await parts.model.close()

    with holding({HELD_KEY: KEY}):
        plan, parts = _parts(request, benchmark)
        return asyncio.run(check())


def assert_sound(ran: Ran) -> None:
    """Every file is readable by strict readers; the numbers add up; no sandbox is left."""
    for path in ran.folder.rglob("*"):
        if "artifacts" not in path.parts and path.suffix in (".json", ".md", ".txt", ".log"):
            text = path.read_bytes().decode("utf-8")
            assert "\0" not in text, path
            if path.suffix == ".json":
                strict(text)
    table = pandas.read_parquet(ran.store.folder.attempts_parquet)
    coverage = ran.metrics.coverage
    assert len(table) == coverage.scored + coverage.unscored + coverage.skipped
    assert coverage.planned_attempts == len(table) + coverage.missing
    outcomes = ran.metrics.outcomes
    classes = (outcomes.correct, outcomes.incorrect, outcomes.scored, *outcomes.unscored.values())
    total = sum(count for count in classes if count is not None)
    assert total + outcomes.skipped + outcomes.missing == coverage.planned_attempts
    assert (ran.folder / "analysis" / "analysis.md").is_file()
    boxes = Path(str(ran.plan.environment.params["temp_dir"]))
    assert list(boxes.iterdir()) == []


async def _measured(
    plan: RunPlan, parts: Parts, watch: Watch | None, reused: RunStore | None
) -> Ran:
    dataset, samples = prepare.load_samples(plan, parts)
    settings, stop = plan.request.execution, asyncio.Event()
    planned = len(samples) * settings.attempts.k
    if plan.request.model.base_url:
        await loaded()  # preflight's call has done so in a real run
    store, board = _opened(plan, parts, samples), Board(planned)
    run = OpenRun(plan, parts, fingerprint(plan), store, board, Directly())
    if reused is not None:
        await asyncio.to_thread(run.adopt_from, reused, samples)
    watching = asyncio.ensure_future(watch(UnderWay(store, board, stop)) if watch else _nothing())
    ending, failure, started = None, None, time.monotonic()
    try:
        ending = await work_through(
            units(samples, settings.attempts),
            min(settings.task_concurrency, planned),
            lambda unit: run_unit(unit, run),
            stop=stop,
            timeout_seconds=None,
        )
    except Exception as error:  # as `flows` keep it: what is finished still counts
        failure = error
    finally:
        seconds = time.monotonic() - started
        await parts.model.close()
    await watching
    parameters = parts.benchmark_parameters
    metrics = conclusion.conclude(
        plan, parameters, dataset, samples, store, benchmark=parts.benchmark
    )
    analysis.analyze(store)
    judge = parts.benchmark
    return Ran(plan, parameters, dataset, samples, store, ending, failure, metrics, seconds, judge)


def _parts(request: RunRequest, benchmark: Benchmark | None) -> tuple[RunPlan, Parts]:
    plan = resolve(request)
    parts = assemble(plan)
    if benchmark is None:
        return plan, parts
    return (
        plan.model_copy(update={"primary": benchmark.primary}),
        replace(parts, benchmark=benchmark),
    )


def _opened(plan: RunPlan, parts: Parts, samples: tuple[Sample, ...]) -> RunStore:
    request = plan.request
    names = (request.model.id, request.benchmark.id, request.harness.id)
    parent = namespace(Path(request.runtime.results_dir), request.runtime.run_name, *names)
    store = RunStore(reserve(parent, "", datetime.now(UTC)), Masker(parts.secrets))
    tasks = [sample.task.id for sample in samples]
    store.write_run({"plan": plan.model_dump(mode="json"), "tasks": tasks})
    return store


async def _nothing() -> None:
    return None
