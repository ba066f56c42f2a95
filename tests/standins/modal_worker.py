"""The worker's half of a stand-in of Modal's servers: commands, their streams, the network."""

import time
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError, Status
from grpclib.server import Stream
from modal_proto import task_command_router_pb2 as router

from tests.standins.modal_command import RunningCommand
from tests.standins.modal_sandboxes import StandinSandbox

if TYPE_CHECKING:
    from tests.standins.modal_server import ModalStandin


class ModalWorker:
    """One method for each call of the protocol: its request in, its reply out."""

    def __init__(self, standin: "ModalStandin") -> None:
        self._standin = standin

    async def TaskExecStart(self, request: Any) -> Any:
        sandbox = self._sandbox(request.task_id)
        if request.exec_id not in sandbox.commands:  # the id makes a repeated call safe
            await sandbox.exec(request, self._standin.variables(request.secret_sources))
        return router.TaskExecStartResponse()

    async def TaskExecPoll(self, request: Any) -> Any:
        return _with_code(router.TaskExecPollResponse(), self._command(request))

    async def TaskExecWait(self, request: Any) -> Any:
        command = self._command(request)
        await command.done()
        self._sandbox(request.task_id)
        return _with_code(router.TaskExecWaitResponse(), command)

    async def TaskExecStdinWrite(self, request: Any) -> Any:
        try:
            await self._command(request).write(request.offset, request.data, request.eof)
        except (BrokenPipeError, ConnectionResetError):
            raise GRPCError(Status.FAILED_PRECONDITION, "stdin is closed") from None
        return router.TaskExecStdinWriteResponse()

    async def TaskExecStdinStatus(self, request: Any) -> Any:
        command = self._command(request)
        return router.TaskExecStdinStatusResponse(
            num_bytes_written=command.stdin_bytes, closed=command.stdin_closed
        )

    async def SandboxWaitUntilReady(self, request: Any) -> Any:
        return router.SandboxWaitUntilReadyTcrResponse(ready_at=time.time())

    async def TaskSetNetworkAccess(self, request: Any) -> Any:
        await self._sandbox(request.task_id).box.network.apply(request.network_access)
        return router.TaskSetNetworkAccessResponse()

    async def stream_TaskExecStdioRead(self, stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        command = self._command(request)
        async for data in command.read(request.file_descriptor, request.offset):
            await stream.send_message(router.TaskExecStdioReadResponse(data=data))

    def _sandbox(self, task_id: str) -> StandinSandbox:
        for sandbox in self._standin.sandboxes.values():
            if sandbox.task_id == task_id and sandbox.alive:
                return sandbox
        raise GRPCError(Status.NOT_FOUND, f"task {task_id} not found")

    def _command(self, request: Any) -> RunningCommand:
        command = self._sandbox(request.task_id).commands.get(request.exec_id)
        if command is None:
            raise GRPCError(Status.NOT_FOUND, f"exec {request.exec_id} not found")
        return command


def _with_code(reply: Any, command: RunningCommand) -> Any:
    if command.code is not None:
        if command.code < 0:
            reply.signal = -command.code
        else:
            reply.code = command.code
    return reply
