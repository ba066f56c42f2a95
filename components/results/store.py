"""One run on disk: every fact has one file, durable when its method returns, masked and clean.

Nothing is kept in memory, so memory does not grow with the number of tasks. Methods may be called
from several threads of one process. Writers raise AgentCompassError(results.write); readers raise
DamagedRecord, which names the file and leaves it as it is.
"""

import logging
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.attempt import (
    AttemptKey,
    AttemptRecord,
    Checkpoint,
    Detail,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.task import Task
from agentcompass.components.contracts.trajectory import Trajectory
from agentcompass.components.results.artifacts import ArtifactFolder
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.reading import DamagedRecord, read_document, read_record
from agentcompass.components.results.writing import (
    clean_text,
    make_folder,
    to_json,
    unwritable,
    write_atomic,
)

LOG = logging.getLogger("agentcompass.results")
_STRIPES = 64
_NAMES = frozenset(
    ["run_id", "state", "started_at", "updated_at", "continued_at", "plan", "fingerprint"]
    + ["dataset", "tasks", "categories", "rescored", "versions"]
    + ["prefect_flow_run_id", "flow_run_key"]
)
"""Parts of run.json that are read and compared again; the others are text for people."""


def _locks() -> tuple[threading.Lock, ...]:
    return tuple(threading.Lock() for _ in range(_STRIPES))


@dataclass(frozen=True)
class RunStore:
    folder: RunFolder
    masker: Masker = field(default_factory=Masker)
    _stripes: tuple[threading.Lock, ...] = field(default_factory=_locks, repr=False)
    """A task's lock is one of these, by its id: as many locks as stripes, not as tasks."""

    @property
    def run_id(self) -> str:
        return self.folder.run_id

    # The run

    def write_run(self, document: Mapping[str, Any]) -> None:
        """run.json. `tasks`, a list of ids or of objects with an `id`, orders `details()`.

        What names things in it stays as it is, whatever a short key is.
        """
        masker = self.masker
        masked = {
            name: masker.names(value) if name in _NAMES else masker.value(value)
            for name, value in document.items()
        }
        self._write_masked(self.folder.run_json, {"schema_version": 1, **masked})

    def read_run(self) -> dict[str, Any] | None:
        return read_document(self.folder.run_json, "run")

    def write_progress(self, document: Mapping[str, Any]) -> None:
        self._write(self.folder.progress_json, document)

    def write_metrics(self, metrics: Metrics) -> None:
        self._write(self.folder.metrics_json, metrics)

    def read_metrics(self) -> Metrics | None:
        return read_record(self.folder.metrics_json, "metrics", Metrics)

    def write_summary(self, markdown: str) -> None:
        text, _ = clean_text(self.masker.text(markdown))
        write_atomic(self.folder.summary_md, text.encode())

    # One execution of an attempt

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._write(self.folder.checkpoint(checkpoint.key), checkpoint)

    def read_checkpoint(self, key: AttemptKey) -> Checkpoint | None:
        path = self.folder.checkpoint(key)
        checkpoint = read_record(path, "checkpoint", Checkpoint)
        if checkpoint is not None and checkpoint.key != key:
            raise DamagedRecord(path, f"belongs to {checkpoint.key!r}, not to {key!r}")
        return checkpoint

    def save_trajectory(self, key: AttemptKey, trajectory: Trajectory) -> None:
        """Without unset fields; `extra.replaced_characters` counts what could not be stored."""
        masked = self.masker.value(trajectory)
        _, replaced = clean_text(masked)
        if replaced:
            extra = {**(masked.extra or {}), "replaced_characters": replaced}
            masked = masked.model_copy(update={"extra": extra})
        write_atomic(self.folder.trajectory(key), to_json(masked, omit_none=True))

    def read_trajectory(self, key: AttemptKey) -> Trajectory | None:
        return read_record(self.folder.trajectory(key), "trajectory", Trajectory)

    def append_attempt_log(self, key: AttemptKey, text: str) -> None:
        """Add whole lines to log.txt; a missing newline at the end is added. Not synced."""
        path = self.folder.attempt_log(key)
        cleaned, _ = clean_text(self.masker.text(text))
        line = cleaned if cleaned.endswith("\n") else cleaned + "\n"
        try:
            make_folder(path.parent)
            with self._lock(key.task_id), path.open("ab") as file:
                file.write(line.encode())
        except OSError as error:
            raise unwritable(path, error) from error

    def artifacts(self, key: AttemptKey) -> ArtifactFolder:
        return ArtifactFolder(self.folder.artifacts(key), self.masker)

    # Tasks

    def save_record(
        self, task: Task, planned: int, content_hash: str, record: AttemptRecord
    ) -> None:
        """Put the outcome of an attempt into its task's detail, in the place of an earlier one."""
        self.save_records(task, planned, content_hash, [record])

    def save_records(
        self, task: Task, planned: int, content_hash: str, records: Sequence[AttemptRecord]
    ) -> None:
        """The same for several attempts, in one write."""
        indexes = {record.key.index for record in records}
        with self._lock(task.id):
            old = self.read_detail(task.id)
            if old is not None and old.content_hash != content_hash:
                raise AgentCompassError(
                    Code.FRAMEWORK_UNEXPECTED,
                    f"task {task.id} changed since its detail was begun: "
                    f"{self.folder.detail(task.id)}",
                )
            kept = [r for r in (old.attempts if old else ()) if r.key.index not in indexes]
            attempts = tuple(sorted([*kept, *records], key=lambda r: r.key.index))
            detail = Detail(
                task_id=task.id,
                category=task.category,
                instruction=task.instruction,
                content_hash=content_hash,
                planned=planned,
                attempts=attempts,
            )
            self._write(self.folder.detail(task.id), detail)

    def read_detail(self, task_id: str) -> Detail | None:
        path = self.folder.detail(task_id)
        detail = read_record(path, "detail", Detail)
        if detail is not None and detail.task_id != task_id:
            raise DamagedRecord(path, f"belongs to task {detail.task_id!r}, not to {task_id!r}")
        return detail

    def details(self) -> Iterator[Detail]:
        """All details, one in memory at a time: in run.json's order, then by task id."""
        listed = list(dict.fromkeys(_task_ids(self.read_run() or {})))
        known = {self.folder.detail(task_id) for task_id in listed}
        for task_id in listed:
            if (detail := self.read_detail(task_id)) is not None:
                yield detail
        others = [path for path in self.folder.tasks.glob("*/detail.json") if path not in known]
        for task_id, path in sorted((_task_id(path), path) for path in others):
            if path != self.folder.detail(task_id):
                raise DamagedRecord(path, f"belongs to task {task_id!r}, whose folder is another")
            if (detail := self.read_detail(task_id)) is not None:
                yield detail

    def _write(self, path: Path, value: Any) -> None:
        self._write_masked(path, self.masker.value(value))

    def _write_masked(self, path: Path, masked: Any) -> None:
        plain, replaced = clean_text(masked)
        if replaced:
            LOG.info("%s: %d characters or values that JSON cannot hold replaced", path, replaced)
        write_atomic(path, to_json(plain))

    def _lock(self, task_id: str) -> threading.Lock:
        number = zlib.crc32(task_id.encode("utf-8", "surrogatepass"))
        return self._stripes[number % _STRIPES]


def _task_ids(run: dict[str, Any]) -> Iterator[str]:
    listed = run.get("tasks")
    for entry in listed if isinstance(listed, list) else ():
        task_id = entry.get("id") if isinstance(entry, dict) else entry
        if isinstance(task_id, str):
            yield task_id


def _task_id(path: Path) -> str:
    detail = read_record(path, "detail", Detail)
    return detail.task_id if detail else ""
