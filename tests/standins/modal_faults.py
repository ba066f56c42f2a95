"""What goes wrong at a stand-in of Modal's servers, on request: see `ModalFaults`."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from grpclib import GRPCError, Status
from grpclib.server import Stream
from modal_proto import api_pb2 as api

NEVER = 1_000_000


@dataclass
class _Fault:
    rpc: re.Pattern[str]
    times: int
    happen: Callable[[Stream[Any, Any]], Awaitable[None]]
    after: bool
    """The call is carried out, and its answer is lost."""


class ModalFaults:
    """Each names the calls it hits (`rpc`: a pattern for the whole name) and how many of them."""

    def __init__(self) -> None:
        self._faults: list[_Fault] = []
        self.creates_per_second: float | None = None
        self.most_alive: int | None = None
        self.quota_message: str | None = None
        """Refuses every sandbox with RESOURCE_EXHAUSTED."""
        self._created: deque[float] = deque()

    def fail(
        self,
        rpc: str,
        status: Status,
        *,
        times: int = 1,
        message: str = "",
        after: bool = False,
        retry_after: float | None = None,
    ) -> None:
        details = [api.RPCRetryPolicy(retry_after_secs=retry_after)] if retry_after else None

        async def happen(_: Stream[Any, Any]) -> None:
            raise GRPCError(status, message or f"injected {status.name}", details)

        self._faults.append(_Fault(re.compile(rpc), times, happen, after))

    def hang(
        self, rpc: str, *, times: int = 1, seconds: float = NEVER, after: bool = False
    ) -> None:
        """No answer for `seconds`."""

        async def happen(_: Stream[Any, Any]) -> None:
            await asyncio.sleep(seconds)

        self._faults.append(_Fault(re.compile(rpc), times, happen, after))

    def cut(self, rpc: str, *, times: int = 1, after: bool = False) -> None:
        """The connection is lost."""

        async def happen(stream: Stream[Any, Any]) -> None:
            stream._stream._transport.abort()
            await asyncio.sleep(NEVER)

        self._faults.append(_Fault(re.compile(rpc), times, happen, after))

    def clear(self) -> None:
        self._faults.clear()

    async def before(self, rpc: str, stream: Stream[Any, Any]) -> None:
        await self._strike(rpc, stream, after=False)

    async def after(self, rpc: str, stream: Stream[Any, Any]) -> None:
        await self._strike(rpc, stream, after=True)

    async def _strike(self, rpc: str, stream: Stream[Any, Any], *, after: bool) -> None:
        for fault in self._faults:
            if fault.after is after and fault.times > 0 and fault.rpc.fullmatch(rpc):
                fault.times -= 1
                await fault.happen(stream)

    def check_quota(self, alive: int) -> None:
        """Raises GRPCError for a sandbox too many or too soon."""
        if self.quota_message is not None:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, self.quota_message)
        if self.most_alive is not None and alive >= self.most_alive:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "too many running sandboxes")
        if self.creates_per_second is not None:
            now = time.monotonic()
            while self._created and self._created[0] <= now - 1:
                self._created.popleft()
            if len(self._created) >= self.creates_per_second:
                raise GRPCError(Status.RESOURCE_EXHAUSTED, "sandboxes are created too fast")
            self._created.append(now)
