"""The sandboxes of a stand-in of Modal's servers: what is known of each, and its end."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from modal_proto import api_pb2 as api
from modal_proto import task_command_router_pb2 as router

from tests.standins.modal_box import NamespaceBox
from tests.standins.modal_command import RunningCommand

_DEFAULT_LIFETIME_SECONDS = 300  # Modal's own, for who gives none


class StandinSandbox:
    def __init__(
        self,
        folder: Path,
        definition: api.Sandbox,
        app_id: str,
        tags: Mapping[str, str],
        variables: Mapping[str, str],
        *,
        first_version: bool,
    ) -> None:
        if first_version:
            self.id = f"sb-{secrets.token_hex(11)}"
            self.task_id = f"ta-{secrets.token_hex(12)}"
        else:  # the SDK tells the two apart by these
            self.id = f"sb-v2{secrets.token_hex(14)}"
            self.task_id = f"ta-{secrets.token_hex(12)}V"
        self.definition, self.app_id = definition, app_id
        self.tags = dict(tags)
        self.created = time.time()
        self.result: api.GenericResult | None = None
        self.ended = asyncio.Event()
        self.starting: asyncio.Future[None]
        self.commands: dict[str, RunningCommand] = {}
        variables = {"MODAL_SANDBOX_ID": self.id, **variables}
        memory_mb = definition.resources.memory_mb_max
        self.box = NamespaceBox(
            folder / self.id, definition.workdir or "/root", variables, memory_mb
        )

    async def start(self, names: Mapping[str, str]) -> None:
        lifetime = self.definition.timeout_secs or _DEFAULT_LIFETIME_SECONDS
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(lifetime, self.end, api.GenericResult.GENERIC_STATUS_TIMEOUT)
        access = self.definition.network_access
        if self.definition.block_network:
            access = api.NetworkAccess(network_access_type=api.NetworkAccess.BLOCKED)
        argv = list(self.definition.entrypoint_args) or ["sleep", "infinity"]
        await self.box.start(argv, access, names, self._exited)
        if self.result is not None:  # it ended while it started
            self.box.kill()

    @property
    def alive(self) -> bool:
        return self.result is None

    def end(self, status: "api.GenericResult.GenericStatus.ValueType") -> None:
        """The box goes in its own time; what is known of it changes now."""
        if self.result is None:
            self._over(api.GenericResult(status=status))
        self.box.kill()

    def _exited(self, code: int) -> None:
        if self.result is None:
            ok = code == 0
            self._over(
                api.GenericResult(
                    status=api.GenericResult.GENERIC_STATUS_SUCCESS
                    if ok
                    else api.GenericResult.GENERIC_STATUS_FAILURE,
                    exitcode=code if code >= 0 else 128 - code,
                )
            )

    def _over(self, result: api.GenericResult) -> None:
        self.result = result
        self._timer.cancel()
        self.ended.set()

    async def exec(self, request: router.TaskExecStartRequest, variables: dict[str, str]) -> None:
        self.commands[request.exec_id] = await self.box.exec(
            list(request.command_args),
            variables,
            request.workdir or None,
            request.timeout_secs or None,
        )
