"""Go on in the folder that a run has: what is scored stands, the rest is judged or made again.

It stays one run: what earlier tries cost and why they failed stays in its records, and no try
takes the folder of another.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.fingerprint import differences
from agentcompass.components.execution.open_run import OpenRun

_WAY_OUT = "start a new run; with --reuse it takes over what still fits"


def go_on(run: OpenRun, samples: Sequence[Sample]) -> None:
    """Count what is scored, and note what was tried of the rest. Blocking.

    RequestError, before anything is written, if the run would be another one now: attempts made
    under different conditions are not put into one score. DamagedRecord names its file.
    """
    store = run.store
    document = store.read_run() or {}
    if changed := differences(document.get("fingerprint", {}), run.fingerprint):
        raise RequestError(
            "retry", f"run {store.run_id} was made with other " + "; ".join(changed), _WAY_OUT
        )
    hashes = {sample.task.id: sample.content_hash for sample in samples}
    before = {}
    for detail in store.details():
        if detail.content_hash != hashes.get(detail.task_id):
            raise RequestError(
                "retry", f"task {detail.task_id} of run {store.run_id} changed since", _WAY_OUT
            )
        for record in detail.attempts:
            light = record.model_copy(update={"submission": None, "verdict": None})
            before[detail.task_id, record.key.index] = light
    run.adopt_from(store, samples)
    run.before = {place: record for place, record in before.items() if place not in run.adopted}
    now = datetime.now(UTC).isoformat()
    run.provenance = {
        "started_at": document.get("started_at", now),
        "continued_at": [*document.get("continued_at", ()), now],
    }
