"""Several runs of one process: each with its own session, secrets and log, one gate for all."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import prefect
from prefect.client.schemas.objects import State

from agentcompass.components.configuration.secrets import holding
from agentcompass.components.contracts.errors import PreflightRefused, RequestError
from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.execution.capacity import Slots
from agentcompass.flows.logs import run_log
from agentcompass.flows.names import tags
from agentcompass.flows.outcome import outcome_of
from agentcompass.flows.session import Session, listening

AT_ONCE = 4
"""Requests under way together: enough to fill the slots that a long tail leaves free."""

Evaluate = Callable[[RunRequest], Awaitable[State[Any]]]
"""Carries the flow out, as a sub-flow or alone; how it ended."""


@dataclass
class Member:
    """One request and what became of it."""

    request: RunRequest
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    session: Session = field(default_factory=Session)
    outcome: Outcome | None = None
    problem: str = ""
    exit_code: int | None = None
    """None: it was never begun."""


class Together:
    """The requests of a launch. `stop` ends them all in order."""

    def __init__(self, members: Sequence[Member], task_concurrency: int | None = None) -> None:
        self.members = members
        self.stop = asyncio.Event()
        gate = asyncio.Semaphore(task_concurrency) if task_concurrency else None
        for member in members:
            member.session.gate = gate
        self._under_way: dict[int, asyncio.Task[None]] = {}

    def belongs_to(self, flow_run_id: str, *, retried: bool) -> None:
        """The launch's flow run; when it is retried, each request goes on in its folder."""
        for number, member in enumerate(self.members, 1):
            member.session.launched_as = f"{flow_run_id}/{number}"
            member.session.launch_retried = retried

    async def run_all(self, evaluate: Evaluate) -> None:
        """Begin the requests in their order, AT_ONCE of them together."""
        places = asyncio.Semaphore(AT_ONCE)

        async def in_turn(number: int, member: Member) -> None:
            async with places:
                if not self.stop.is_set():
                    self._under_way[number] = asyncio.create_task(_record(member, evaluate))
                    await asyncio.wait([self._under_way[number]])

        await asyncio.gather(*(in_turn(n, member) for n, member in enumerate(self.members)))

    def request_stop(self, number: int | None = None) -> None:
        """On the event loop: finish what has attempts, end what has none, begin nothing."""
        self.stop.set()
        for place, task in self._under_way.items():
            session = self.members[place].session
            session.signal = session.signal or number
            session.end(task)


async def _record(member: Member, evaluate: Evaluate) -> None:
    """How it ended, whatever that is: one request's failure is told and stops no other."""
    try:
        outcome = await carry_out(member, evaluate)
    except PreflightRefused as refused:
        member.problem, member.exit_code = str(refused), 3
    except RequestError as error:
        member.problem, member.exit_code = str(error), 2
    except asyncio.CancelledError:
        member.problem, member.exit_code = "interrupted before it began", 130
    except Exception as error:  # the flow may fail in any way
        member.problem, member.exit_code = str(error) or repr(error), 4
    else:
        member.outcome, member.exit_code = outcome, outcome.exit_code
        member.problem = outcome.problem


async def carry_out(member: Member, evaluate: Evaluate) -> Outcome:
    """Run the flow in this context. What stopped it before it had attempts rises."""
    request, session = member.request, member.session
    with (
        holding(member.secrets),
        run_log(request.runtime) as session.log,
        listening(session),
        prefect.tags(*tags(request)),
    ):
        return await outcome_of(session, lambda: evaluate(request))


class Gated:
    """Satisfies execution.capacity.Slots: a place in this process first, then the provider's."""

    def __init__(self, gate: asyncio.Semaphore, slots: Slots) -> None:
        self._gate, self._slots = gate, slots

    def held(self) -> AbstractAsyncContextManager[None]:
        return self._held()

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        async with self._gate, self._slots.held():
            yield

    def needs(self, count: int) -> None:
        self._slots.needs(count)


_together: ContextVar[Together | None] = ContextVar("agentcompass_together", default=None)


def together(requests: Sequence[RunRequest]) -> Together:
    """Who started these requests, or a new one (a deployed flow run): no more attempts at once
    over all of them than the widest would have alone."""
    started = _together.get()
    if started is None:
        most = max((request.execution.task_concurrency for request in requests), default=None)
        started = Together([Member(request) for request in requests], most)
    return started


def begun_here() -> bool:
    """A launch of ours goes on in this context, not a deployed flow run."""
    return _together.get() is not None


def starting(chosen: Together) -> None:
    """From here on, in this context, `together` is this one."""
    _together.set(chosen)
