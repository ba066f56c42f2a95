"""What a run gave, on its page in the Prefect UI: score, summary, what has no score, analysis.

The page is a courtesy and the files are the result: nothing here stops or fails a run. An artifact
stands on the page of the flow that makes it, so `evaluate` calls this and no sub-flow.
"""

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from uuid import UUID

import prefect.runtime.flow_run
from prefect import get_run_logger
from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.utilities.urls import url_for

from agentcompass.components.contracts.errors import POLICIES
from agentcompass.components.results.headline import headline_lines, headline_sentence
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.numbers_shown import count
from agentcompass.components.results.store import RunStore
from agentcompass.flows.cancelled import api_answers
from agentcompass.flows.live import LiveRun

log = logging.getLogger(__name__)

LISTED = 50
"""Attempts without a score; the summary counts all of them, the files hold them."""
MESSAGE_CHARACTERS = 300

Row = dict[str, str]


async def publish_results(run: LiveRun) -> None:
    """The score table, the summary, and a row for each attempt that has no score."""
    if not await api_answers():
        return
    metrics, folder = run.metrics, run.store.folder
    try:
        unscored = await asyncio.to_thread(_unscored, run.store, metrics, run.handover.failed)
        text = await asyncio.to_thread(folder.summary_md.read_text, encoding="utf-8")
        rows = [line._asdict() for line in headline_lines(metrics)]
        await forget_earlier("score", "summary", "unscored", "analysis")
        score = headline_sentence(metrics)
        await acreate_table_artifact(table=rows, key="score", description=score)
        await acreate_markdown_artifact(
            markdown=f"{text}\n\n{_where(run)}",
            key="summary",
            description="Score, what was left out, cost, time, how to repeat it",
        )
        if unscored:
            description = _left_out(metrics, str(folder.root))
            await acreate_table_artifact(table=unscored, key="unscored", description=description)
            get_run_logger().warning("%s: %s", score, description)
        else:
            get_run_logger().info("%s", score)
    except Exception as error:  # whatever the API may answer
        log.warning("no result on the Prefect page: %s", error)


async def publish_analysis(run: LiveRun) -> None:
    """analysis.md, if the run has one."""
    if not await api_answers():
        return
    path = run.store.folder.analysis / "analysis.md"
    try:
        text = await asyncio.to_thread(path.read_text, encoding="utf-8")
        description = "What to do first, and what each analyzer found"
        await acreate_markdown_artifact(markdown=text, key="analysis", description=description)
    except FileNotFoundError:  # not asked for
        return
    except Exception as error:  # as above
        log.warning("no analysis on the Prefect page: %s", error)


async def forget_earlier(*keys: str) -> None:
    """A retry's artifacts replace those of the execution before; the page would show both."""
    flow_run_id = UUID(prefect.runtime.flow_run.id)
    ours = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run_id]),
        key=ArtifactFilterKey(any_=list(keys)),
    )
    async with get_client() as client:
        for artifact in await client.read_artifacts(artifact_filter=ours):
            await client.delete_artifact(artifact.id)


def _left_out(metrics: Metrics, root: str) -> str:
    coverage = metrics.coverage
    number = coverage.unscored + coverage.missing
    first = f" (the first {LISTED} here)" if number > LISTED else ""
    return f"{count(number, 'attempt')} without a score{first}; the files are in {root}"


def _where(run: LiveRun) -> str:
    """The last lines of the summary: files, and the pages of attempts and verdicts."""
    states = zip(("attempts", "scoring"), run.stages, strict=True)
    pages = [f"[{name}]({_page('flow-run', s.state_details.flow_run_id)})" for name, s in states]
    return f"Results: `{run.store.folder.root}`\n\nEach attempt: {', '.join(pages)}"


def _page(kind: str, of: UUID | None) -> str:
    return (of and url_for(kind, of)) or ""


def _unscored(store: RunStore, metrics: Metrics, failed_runs: Mapping[str, UUID]) -> list[Row]:
    """Blocking. Nothing is read if every attempt has a score."""
    if not metrics.coverage.unscored:
        return list(islice(_missing(metrics), LISTED))
    failed = list(islice(_failed(store, failed_runs), LISTED))
    return failed + list(islice(_missing(metrics), LISTED - len(failed)))


def _failed(store: RunStore, failed_runs: Mapping[str, UUID]) -> Iterator[Row]:
    for detail in store.details():
        for record in detail.attempts:
            if record.failure is not None:
                files = store.folder.attempt(record.key).relative_to(store.folder.root)
                name = _as_it_is(str(record.key))
                page = _page("task-run", failed_runs.get(str(record.key)))
                yield {
                    "attempt": f"[{name}]({page})" if page else name,
                    "code": record.failure.code.value,
                    "owner": POLICIES[record.failure.code].owner.value,
                    "files": _as_it_is(str(files)),
                    "message": _as_it_is(_short(record.failure.message)),
                }


def _missing(metrics: Metrics) -> Iterator[Row]:
    for entry in metrics.coverage.missing_attempts:
        for index in entry.indexes:
            name = _as_it_is(f"{entry.task_id} #{index}")
            yield {"attempt": name, "code": "", "owner": "", "files": "", "message": "never ended"}


def _as_it_is(text: str) -> str:
    """The UI reads a table's cells as Markdown."""
    return re.sub(r"([\\`*_<\[])", r"\\\1", text)


def _short(message: str) -> str:
    flat = " ".join(message.split())
    return flat if len(flat) <= MESSAGE_CHARACTERS else flat[: MESSAGE_CHARACTERS - 1] + "…"
