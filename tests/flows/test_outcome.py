"""How a run's flow ended, also when the Prefect API goes away at its very end."""

import asyncio
import errno
from typing import Any, cast

import httpx
import pytest

from agentcompass.components.contracts.progress import Outcome
from agentcompass.flows.session import Session

MEASURED = cast(Outcome, object())


class Run:
    """As much of a live run as the end needs."""

    attempts_ended = True

    def compute(self) -> None:
        pytest.fail("it was computed already")


def ended(session: Session, error: Exception | None) -> Outcome:
    from prefect.states import Completed

    from agentcompass.flows.outcome import outcome_of

    async def flow() -> Any:
        if error is not None:
            raise error
        return Completed()

    return asyncio.run(outcome_of(session, flow))


@pytest.mark.parametrize("error", [None, httpx.ConnectError("gone"), ConnectionRefusedError()])
def test_what_is_measured_and_analysed_stays_so(error: Exception | None) -> None:
    session = Session(outcome=MEASURED, run=cast(Any, Run()))
    assert ended(session, error) is MEASURED


def test_a_full_disk_is_not_taken_for_an_api_that_is_gone() -> None:
    session = Session(run=cast(Any, Run()))
    with pytest.raises(OSError, match="no room"):
        ended(session, OSError(errno.ENOSPC, "no room"))


def test_an_api_that_fails_before_the_attempts_is_told_as_that() -> None:
    from agentcompass.flows.server import ServerProblem

    with pytest.raises(ServerProblem, match="before the attempts ended: gone"):
        ended(Session(), httpx.ConnectError("gone"))


def test_an_early_end_is_a_cancellation() -> None:
    with pytest.raises(asyncio.CancelledError):
        ended(Session(ended_early=True), None)
