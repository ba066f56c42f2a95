"""A storm of refusals for rate costs waiting, told apart, and neither a task nor the agent's time
(C35)."""

from pathlib import Path

from tests.cases.rig import ask, measure
from tests.cases.toy import Toy, number, put, submit
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

AGENT = "tool_agent"
TASKS, STORM_SECONDS, WORK_SECONDS = 8, 6.0, 4.0
REFUSALS = (
    Reply(status=429, headers={"Retry-After": "2"}),
    Reply(status=529, headers={"Retry-After": "date+2"}),
    Reply(status=429),
    Reply(status=529),
)


class Storm:
    """Refuses seven calls of ten, by each of `REFUSALS` in turn, for `STORM_SECONDS`."""

    def __init__(self) -> None:
        self.began = 0.0
        self.refused = 0

    def __call__(self, request: RequestInfo) -> Reply:
        self.began = self.began or request.at_seconds
        if request.at_seconds < self.began + STORM_SECONDS and request.number % 10 < 7:
            self.refused += 1
            return REFUSALS[self.refused % len(REFUSALS)]
        moves = (put(AGENT, number(request)), submit(AGENT))
        return Reply(**{**vars(moves[min(request.step, 1)]), "delay_seconds": 0.1})


def test_every_task_is_scored_and_waiting_is_nobodys_time(tmp_path: Path) -> None:
    storm = Storm()
    with ModelServer(storm) as server:
        request = ask(
            tmp_path, "quickstart", AGENT, server.base_url,
            task_concurrency=TASKS, run_timeout_seconds=WORK_SECONDS,
        )  # fmt: skip
        ran = measure(request, Toy(TASKS))
    assert storm.refused >= TASKS
    assert set(ran.codes().values()) == {None}
    assert (ran.metrics.headline.value, ran.metrics.timed_out) == (1.0, 0)
    times = [record.times for record in ran.records().values()]
    waits = [one.waiting_seconds for one in times]
    assert max(waits) > WORK_SECONDS, "no attempt waited longer than it may work: nothing is shown"
    assert all((one.run_seconds or 0.0) - one.waiting_seconds < WORK_SECONDS for one in times)
    assert ran.metrics.times.waiting_seconds == sum(waits)
    assert "| waiting for the model (rate limits, failing endpoint) | " in ran.summary
