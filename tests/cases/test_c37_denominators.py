"""What counts in the mean: every score does, what has none does not, and both are told (C37)."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pandas

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from tests.cases.rig import Ran, ask, measure
from tests.cases.toy import Toy, number, put, submit
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo


class NoImage:
    """A provider that cannot pull the image of some tasks, and gives real sandboxes to others."""

    def __init__(self, inner: EnvironmentProvider, lost: Iterable[int]) -> None:
        self._inner = inner
        self._lost = {f"toy-{n}" for n in lost}
        self.capabilities = inner.capabilities

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        return await self._inner.preflight(requirements)

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        if label.attempt.task_id in self._lost:
            await asyncio.sleep(0.01)
            raise AgentCompassError(Code.ENVIRONMENT_START, "pull access denied for toy:latest")
        async with self._inner.open(requirements, label) as environment:
            yield environment


def run(folder: Path, lost: Iterable[int], **benchmark_params: object) -> Ran:
    """Ten tasks: 1 to 5 right, 6 and 7 wrong, 8 out of time, 9 and 10 without their image."""

    def answer(request: RequestInfo) -> Reply:
        task = number(request)
        if task == 8:
            return Reply(tool_calls=({"name": "shell", "arguments": {"command": "sleep 600"}},))
        moves = [put("tool_agent", task if task < 6 else 0), submit("tool_agent")]
        return moves[min(request.step, 1)]

    with ModelServer(answer) as endpoint:
        request = ask(
            folder,
            "quickstart",
            "tool_agent",
            endpoint.base_url,
            benchmark_params=benchmark_params,
            run_timeout_seconds=4,
            finalization_grace_seconds=3,
        )
        return measure(request, Toy(10), environments=lambda inner: NoImage(inner, lost))


def test_both_means_and_the_coverage_stand_side_by_side(tmp_path: Path) -> None:
    ran = run(tmp_path, lost=(9, 10))
    assert ran.codes() == {
        **{f"toy-{n} #1": None for n in range(1, 9)},
        "toy-9 #1": "environment.start",
        "toy-10 #1": "environment.start",
    }
    late = ran.record("toy-8")
    assert (late.timed_out, late.value) == (True, 0.0)
    (metric,) = ran.metrics.metrics
    assert (metric.scored.value, metric.scored.n_attempts) == (5 / 8, 8)
    assert (metric.planned.value, metric.planned.n_attempts) == (5 / 10, 10)
    assert (ran.metrics.headline.value, ran.metrics.headline.over) == (0.5, "planned")
    assert ran.metrics.coverage.fraction == 8 / 10
    assert ran.metrics.failures_by_owner == {"environment": 2}
    assert ran.metrics.timed_out == 1
    assert ran.metrics.outcomes.model_dump(exclude_none=True) == {
        "correct": 5,
        "incorrect": 3,
        "unscored": {"environment.start": 2},
        "skipped": 0,
        "missing": 0,
    }
    for told in ("0.5", "0.625", "0.8 (8 of 10 attempts scored", "pull access denied"):
        assert told in ran.summary
    table = pandas.read_parquet(ran.store.folder.attempts_parquet)
    assert table["status"].value_counts().to_dict() == {"scored": 8, "unscored": 2}

    # Counting the other way changes the headline and nothing else.
    exclude = ran.benchmark_parameters.model_copy(update={"unscored": "exclude"})
    other = run_again(ran, exclude)
    assert (other["headline"]["value"], other["headline"]["over"]) == (5 / 8, "scored")
    mine = ran.metrics.model_dump()
    changed = {name for name in mine if mine[name] != other[name]}
    assert changed == {"unscored", "headline"}


def run_again(ran: Ran, parameters: object) -> dict[str, dict[str, object]]:
    """The numbers of the same attempts under other parameters of the benchmark."""
    return replace(ran, benchmark_parameters=parameters).conclude().model_dump()  # type: ignore[arg-type]


def test_a_run_without_any_score_has_no_score(tmp_path: Path) -> None:
    ran = run(tmp_path, lost=range(1, 11))
    assert ran.metrics.headline.value is None
    assert {m.scored.value for m in ran.metrics.metrics} == {None}
    assert {m.planned.value for m in ran.metrics.metrics} == {None}
    assert ran.metrics.coverage.fraction == 0.0
    assert "native@1 = no score" in ran.summary
    assert "NaN" not in ran.summary


class WillNotClose(NoImage):
    """A provider whose grading sandboxes answer their deletion with an error."""

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        async with super().open(requirements, label) as environment:
            yield environment
        if label.purpose == "grade":
            raise RuntimeError("409: the sandbox is starting")


def test_a_score_counts_even_if_its_sandbox_will_not_close(tmp_path: Path) -> None:
    one = {"sample_ids": ["csv-quotes"]}
    request = ask(tmp_path, "quickstart", "oracle", benchmark_params=one)
    ran = measure(request, environments=lambda inner: WillNotClose(inner, lost=()))
    assert ran.codes() == {"csv-quotes #1": None}
    assert ran.metrics.headline.value == 1.0
