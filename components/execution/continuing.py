"""Go on in the folder that a run has: what is scored stands, the rest is judged or made again.

It stays one run: what earlier tries cost and why they failed stays in its records, and no try
takes the folder of another.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.fingerprint import differences
from agentcompass.components.execution.images_now import images_now, is_another
from agentcompass.components.execution.open_run import OpenRun
from agentcompass.components.results.reading import DamagedRecord

log = logging.getLogger(__name__)

_WAY_OUT = "start a new run; with --reuse it takes over what still fits"


def go_on(run: OpenRun, samples: Sequence[Sample]) -> None:
    """Count what is scored, and note what was tried of the rest. Blocking.

    RequestError, before anything is written, if the run would be another one now: attempts made
    under different conditions are not put into one score. A damaged record is moved aside, and its
    attempts are judged or made again.
    """
    store = run.store
    document = store.read_run() or {}
    if changed := differences(document.get("fingerprint", {}), run.fingerprint):
        raise RequestError(
            "retry", f"run {store.run_id} was made with other " + "; ".join(changed), _WAY_OUT
        )
    known = {sample.task.id for sample in samples}
    if gone := [task_id for task_id in document.get("tasks", ()) if task_id not in known]:
        raise RequestError(
            "retry", f"task {gone[0]} of run {store.run_id} is no longer in the data", _WAY_OUT
        )
    damaged, images = [], images_now(run.parts, samples)
    for sample in samples:
        task_id = sample.task.id
        try:
            detail = store.read_detail(task_id)
        except DamagedRecord as error:
            damaged.append(error)
            continue
        if detail is None:
            continue
        if detail.content_hash != sample.content_hash:
            raise RequestError(
                "retry", f"task {task_id} of run {store.run_id} changed since", _WAY_OUT
            )
        for record in detail.attempts:
            if record.status == "scored" and is_another(record.image, images.get(task_id)):
                raise RequestError(
                    "retry",
                    f"{record.key} of run {store.run_id} was made in image {record.image}, and "
                    "the image's name means another one now",
                    _WAY_OUT,
                )
    for record_error in damaged:
        path = record_error.path
        log.warning("%s; it is kept as %s.damaged", record_error, path.name)
        path.replace(path.with_name(f"{path.name}.damaged"))
    run.adopt_from(store, samples, images)
    now = datetime.now(UTC).isoformat()
    run.provenance = {
        "started_at": document.get("started_at", now),
        "continued_at": [*document.get("continued_at", ()), now],
    }
