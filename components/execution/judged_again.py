"""What of an earlier run is judged again, what stands as it was, and what changed by it."""

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from agentcompass.components.contracts.attempt import (
    AttemptKey,
    AttemptRecord,
    Checkpoint,
    Detail,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.adoption import WORKERS, link_attempt
from agentcompass.components.execution.earlier_work import (
    checkpoints_left,
    outdated,
    what_was_tried,
)
from agentcompass.components.execution.fingerprint import differences
from agentcompass.components.execution.open_run import OpenRun
from agentcompass.components.execution.rebuilding import planned
from agentcompass.components.results.masking import MASK
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.reading import read_record
from agentcompass.components.results.store import RunStore
from agentcompass.components.results.writing import clean_text, to_json, write_atomic


class Change(Frozen):
    """A verdict that is another one now. None: no valid score."""

    task_id: str
    attempt: int
    before: float | None
    after: float | None


class Rescored(Frozen):
    """rescored.json: what came of judging again."""

    schema_version: Literal[1] = 1
    run_dir: str
    """The earlier run's folder."""
    judged: int
    """Attempts that have a verdict of today's grader."""
    unjudged: int
    """Attempts that were to be judged again and have no valid score now."""
    kept: int
    """Attempts whose earlier outcome stands: see run.json."""
    changed: tuple[Change, ...]


@dataclass
class _Found:
    """Of one task."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    before: list[AttemptRecord] = field(default_factory=list)
    """What is known of what is judged again, light."""
    kept: list[AttemptRecord] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why each of `kept` stands as it was."""
    changed: bool = False
    """Its content is another one now: files, tests or key."""
    told_another: bool = False
    """What the agent was told is another text now."""
    as_it_was: Sample | None = None
    """The task as it was, where every outcome of it is kept."""


def take_over(run: OpenRun, source: RunStore, samples: Sequence[Sample]) -> None:
    """Link the earlier run's attempts into the new one, and note what is to be judged. Blocking.

    The earlier run is only read.
    """
    run.rescored_from = source.run_id
    document, plan = planned(source)
    kept: list[dict[str, object]] = []
    changed: list[str] = []
    other_conditions = bool(differences(document.get("fingerprint", {}), run.fingerprint))
    outdated_then = outdated(document)
    with ThreadPoolExecutor(WORKERS) as pool:
        for sample, found in zip(
            samples, pool.map(partial(_task, run, source), samples), strict=True
        ):
            task_id = sample.task.id
            for checkpoint in found.checkpoints:
                run.checkpoints[task_id, checkpoint.key.index] = checkpoint
            for record in found.before:
                run.before[task_id, record.key.index] = record
            if found.as_it_was is not None:
                run.as_it_was[task_id] = found.as_it_was
            other = other_conditions or found.changed or found.told_another
            for record, reason in zip(found.kept, found.reasons, strict=True):
                place = task_id, record.key.index
                run.adopted[place] = record.value
                run.board.adopted(record)
                told: dict[str, object] = {"task_id": task_id, "attempt": place[1], "why": reason}
                kept.append({**told, "outdated": other or place in outdated_then})
            if found.changed and found.checkpoints:
                changed.append(task_id)
    run.provenance = {
        "rescored": {
            "run_id": source.run_id,
            "run_dir": str(source.folder.root),
            "benchmark": plan.benchmark.model_dump(mode="json"),
            "environment": plan.environment.model_dump(mode="json"),
            "dataset": document.get("dataset"),
            "versions": document.get("versions"),
            "judged_again": len(run.checkpoints),
            "kept": kept,
            "tasks_changed": changed,
        }
    }


def _task(run: OpenRun, source: RunStore, sample: Sample) -> _Found:
    found, k = _Found(), run.plan.request.execution.attempts.k
    detail = source.read_detail(sample.task.id)
    records = {record.key.index: record for record in (detail.attempts if detail else ())}
    if detail is not None:
        found.changed = detail.content_hash != sample.content_hash
        found.told_another = _told_another(detail, found.changed, sample, run.store)
    for index in range(1, k + 1):
        record = records.get(index)
        left = checkpoints_left(sample.task.id, index, source)
        reason = "what the agent was told is another text now" if found.told_another else ""
        reason = reason or _unfit(run, sample, left)
        if not reason:
            checkpoint = left[-1]
            link_attempt(checkpoint.key, source, run.store)
            shutil.rmtree(run.store.folder.verification(checkpoint.key), ignore_errors=True)
            found.checkpoints.append(checkpoint)
            if (tried := what_was_tried(record, left)) is not None:
                found.before.append(tried)
        elif record is not None and record.status != "skipped":
            link_attempt(record.key, source, run.store)
            origin = {"origin": record.origin or source.run_id}
            found.kept.append(record.model_copy(update=origin))
            found.reasons.append(reason)
    if found.kept:
        if detail is not None and not found.checkpoints:
            task = sample.task.model_copy(update={"instruction": detail.instruction})
            then = {"task": task, "content_hash": detail.content_hash}
            found.as_it_was = sample.model_copy(update=then)
        as_told = found.as_it_was or sample
        run.store.save_records(as_told.task, k, as_told.content_hash, found.kept)
    return found


def _told_another(detail: Detail, changed: bool, sample: Sample, store: RunStore) -> bool:
    """Whether the agent was told another text, as far as the records tell. Where a secret is
    masked in that, which may be unknown here, the task's hash decides."""
    then, now = (
        clean_text(store.masker.text(text))[0]
        for text in (detail.instruction, sample.task.instruction)
    )
    return bool(then != now and (changed or MASK not in then))


def _unfit(run: OpenRun, sample: Sample, left: Sequence[Checkpoint]) -> str:
    """Why this cannot be judged again; "" if it can."""
    if not left:
        return "the agent left no checkpoint"
    if run.parts.steps(sample):
        return "it was judged step by step while the agent worked"
    if run.parts.verification(sample.task) == "reuse":
        return "its grader needs the agent's own sandbox"
    return ""


def write_changes(source: RunStore, target: RunStore) -> Rescored:
    """Compare the verdicts, and write rescored.json into the new run."""
    noted = ((target.read_run() or {}).get("rescored") or {}).get("kept", ())
    kept = {(one["task_id"], one["attempt"]) for one in noted}
    judged, unjudged, changed = 0, 0, []
    for key, after in _values(target):
        if (key.task_id, key.index) in kept:
            continue
        judged, unjudged = judged + (after is not None), unjudged + (after is None)
        before = _value(source, key)
        if before != after:
            changed.append(
                Change(task_id=key.task_id, attempt=key.index, before=before, after=after)
            )
    rescored = Rescored(
        run_dir=str(source.folder.root),
        judged=judged,
        unjudged=unjudged,
        kept=len(kept),
        changed=tuple(changed),
    )
    write_atomic(target.folder.rescored_json, to_json(rescored))
    return rescored


def read_changes(run_dir: Path) -> Rescored | None:
    return read_record(RunFolder(run_dir).rescored_json, "rescored", Rescored)


def _values(store: RunStore) -> Iterator[tuple[AttemptKey, float | None]]:
    for detail in store.details():
        for record in detail.attempts:
            if record.status != "skipped":
                yield record.key, record.value


def _value(store: RunStore, key: AttemptKey) -> float | None:
    detail = store.read_detail(key.task_id)
    records = detail.attempts if detail else ()
    return next((record.value for record in records if record.key.index == key.index), None)


def put_in_place(original: Path, new: Path) -> None:
    """The new run's folder takes the place and the name of the earlier run's, which is removed.

    What else stood there (notes, reports of `validate`) comes along.
    """
    aside = original.with_name(f".{original.name}.replaced")
    try:
        original.rename(aside)
        new.rename(original)
        for path in aside.iterdir():
            if not (original / path.name).exists() and path.name not in _STALE:
                path.rename(original / path.name)
        store = RunStore(RunFolder(original))
        store.write_run({**(store.read_run() or {}), "run_id": original.name})
        shutil.rmtree(aside)
    except OSError as error:
        raise AgentCompassError(
            Code.RESULTS_WRITE,
            f"the verdicts in {new} could not take the place of {original}, "
            f"which may be {aside} now: {error.strerror}",
        ) from error


_STALE = ("report.html", "analysis", ".prefect")
"""Made from the verdicts that are replaced."""
