"""A run's patches in the form that the official harness reads (`--predictions_path FILE`).

predictions.jsonl       the first attempt at each instance
predictions-2.jsonl     the second, and so on: the harness takes one patch an instance
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping

from agentcompass.components.contracts.attempt import AttemptRecord
from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.contracts.protocols import FinishedRun

log = logging.getLogger(__name__)


def predictions(run: FinishedRun, patch_name: str) -> Mapping[str, Iterable[bytes]]:
    """One file for each attempt of k. An attempt that left nothing to grade has no line."""
    planned = max((detail.planned for detail in run.details()), default=1)
    return {
        "predictions.jsonl" if index == 1 else f"predictions-{index}.jsonl": _lines(
            run, patch_name, index
        )
        for index in range(1, planned + 1)
    }


def prediction(instance_id: str, model: str, patch: bytes) -> bytes:
    """One line. Bytes that are not UTF-8 travel as escaped halves; an empty patch stays "": the
    harness counts it as such."""
    row = {
        "instance_id": instance_id,
        "model_name_or_path": model,
        "model_patch": patch.decode("utf-8", "surrogateescape"),
    }
    return json.dumps(row).encode("ascii") + b"\n"


def _lines(run: FinishedRun, patch_name: str, index: int) -> Iterator[bytes]:
    for detail in run.details():
        for record in detail.attempts:
            if record.key.index == index and record.submission is not None:
                try:
                    patch = _patch(run, record, patch_name)
                except AgentCompassError as error:
                    log.warning("no prediction for %s: %s", detail.task_id, error)
                    continue
                yield prediction(detail.task_id, run.model, patch)


def _patch(run: FinishedRun, record: AttemptRecord, patch_name: str) -> bytes:
    kept = record.submission.artifacts if record.submission else ()
    return b"".join(run.read(record.key, one) for one in kept if one.name == patch_name)
