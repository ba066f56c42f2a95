"""The control plane's half of a stand-in of Modal's servers: apps, images, sandboxes."""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from typing import TYPE_CHECKING, Any

from google.protobuf.empty_pb2 import Empty
from grpclib import GRPCError, Status
from modal_proto import api_pb2 as api

from tests.standins.modal_sandboxes import StandinSandbox

if TYPE_CHECKING:
    from tests.standins.modal_server import ModalStandin

_BUILDER = "2025.06"


class ModalControl:
    """One method for each call of the protocol: its request in, its reply out."""

    def __init__(self, standin: "ModalStandin") -> None:
        self._standin = standin
        self._image_ids: dict[bytes, str] = {}

    async def ClientHello(self, request: Any) -> Any:
        return api.ClientHelloResponse(image_builder_version=_BUILDER)

    async def AuthTokenGet(self, request: Any) -> Any:
        return api.AuthTokenGetResponse(token=_token())

    async def EnvironmentGetOrCreate(self, request: Any) -> Any:
        settings = api.EnvironmentSettings(image_builder_version=_BUILDER)
        metadata = api.EnvironmentMetadata(name="main", settings=settings)
        return api.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)

    async def AppGetOrCreate(self, request: Any) -> Any:
        if request.app_name not in self._standin.apps:
            if request.object_creation_type == api.OBJECT_CREATION_TYPE_UNSPECIFIED:
                raise GRPCError(Status.NOT_FOUND, f"App {request.app_name} not found")
            self._standin.apps[request.app_name] = f"ap-{secrets.token_hex(11)}"
        return api.AppGetOrCreateResponse(app_id=self._standin.apps[request.app_name])

    async def ImageGetOrCreate(self, request: Any) -> Any:
        """Nothing is built: commands run on this machine's own /usr."""
        content = request.image.SerializeToString(deterministic=True)
        image_id = self._image_ids.setdefault(content, f"im-{secrets.token_hex(11)}")
        self._standin.images[image_id] = request.image
        lines = list(request.image.dockerfile_commands)
        broken = next((line for line in lines if "no-such-image" in line), None)
        result = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_SUCCESS)
        if broken is not None:
            result = api.GenericResult(
                status=api.GenericResult.GENERIC_STATUS_FAILURE, exception=f"cannot pull: {broken}"
            )
        metadata = api.ImageMetadata(image_builder_version=_BUILDER)
        return api.ImageGetOrCreateResponse(image_id=image_id, result=result, metadata=metadata)

    async def MountBatchedCheckExistence(self, request: Any) -> Any:
        return api.MountBatchedCheckExistenceResponse()

    async def MountPutFile(self, request: Any) -> Any:
        return api.MountPutFileResponse(exists=True)

    async def MountGetOrCreate(self, request: Any) -> Any:
        content = b"".join(sorted(file.SerializeToString() for file in request.files))
        mount_id = f"mo-{hashlib.sha256(content).hexdigest()[:22]}"
        return api.MountGetOrCreateResponse(mount_id=mount_id)

    async def SandboxCreateV2(self, request: Any) -> Any:
        variables = self._standin.variables(request.secret_sources)
        sandbox = await self._create(request, variables, first_version=False)
        return api.SandboxCreateV2Response(
            sandbox_id=sandbox.id,
            task_id=sandbox.task_id,
            metadata=api.SandboxHandleMetadata(app_id=sandbox.app_id),
            command_router_access=self._access(),
        )

    async def SandboxCreate(self, request: Any) -> Any:
        """What the SDK calls for a sandbox with a GPU."""
        sandbox = await self._create(request, {}, first_version=True)
        return api.SandboxCreateResponse(sandbox_id=sandbox.id)

    async def _create(
        self, request: Any, variables: dict[str, str], *, first_version: bool
    ) -> StandinSandbox:
        name, living = request.definition.name, self._standin.living()
        if any(name and each.definition.name == name for each in living):
            raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox {name} exists")
        self._standin.faults.check_quota(len(living))
        sandbox = StandinSandbox(
            self._standin.folder,
            request.definition,
            request.app_id,
            {tag.tag_name: tag.tag_value for tag in request.tags},
            variables,
            first_version=first_version,
        )
        self._standin.sandboxes[sandbox.id] = sandbox
        # a client that goes away does not stop what was begun for it
        sandbox.starting = asyncio.ensure_future(sandbox.start(self._standin.names))
        await asyncio.shield(sandbox.starting)
        return sandbox

    async def SandboxGetTaskIdV2(self, request: Any) -> Any:
        return api.SandboxGetTaskIdResponse(task_id=self._sandbox(request.sandbox_id).task_id)

    async def SandboxGetCommandRouterAccess(self, request: Any) -> Any:
        if not self._sandbox(request.sandbox_id).alive:
            raise GRPCError(Status.FAILED_PRECONDITION, "Sandbox already finished")
        access = self._access()
        return api.SandboxGetCommandRouterAccessResponse(jwt=access.jwt, url=access.url)

    async def TaskGetCommandRouterAccess(self, request: Any) -> Any:
        access = self._access()
        return api.TaskGetCommandRouterAccessResponse(jwt=access.jwt, url=access.url)

    async def SandboxWaitV2(self, request: Any) -> Any:
        sandbox = self._sandbox(request.sandbox_id)
        await self._standin.until_ended(sandbox, request.timeout)
        metadata = api.SandboxHandleMetadata(app_id=sandbox.app_id)
        return api.SandboxWaitResponse(result=sandbox.result, metadata=metadata)

    async def SandboxTerminateV2(self, request: Any) -> Any:
        sandbox = self._sandbox(request.sandbox_id)
        before = sandbox.result
        await self._standin.delete(sandbox)
        return api.SandboxTerminateResponse(existing_result=before)

    async def SandboxTagsGetV2(self, request: Any) -> Any:
        tags = self._sandbox(request.sandbox_id).tags
        pairs = [api.SandboxTag(tag_name=name, tag_value=value) for name, value in tags.items()]
        return api.SandboxTagsGetResponse(tags=pairs)

    async def SandboxTagsSetV2(self, request: Any) -> Any:
        tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        self._sandbox(request.sandbox_id).tags = tags
        return Empty()

    async def SandboxListV2(self, request: Any) -> Any:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        before = request.before_timestamp or time.time() + 1
        found = [
            sandbox
            for sandbox in self._standin.living()
            if sandbox.app_id == request.app_id
            and wanted.items() <= sandbox.tags.items()
            and sandbox.created < before
        ]
        newest = sorted(found, key=lambda sandbox: -sandbox.created)[:100]
        return api.SandboxListResponse(
            sandboxes=[
                api.SandboxInfo(
                    id=each.id,
                    created_at=each.created,
                    app_id=each.app_id,
                    name=each.definition.name,
                    task_info=api.TaskInfo(id=each.task_id, result=each.result),
                )
                for each in newest
            ]
        )

    async def SandboxGetFromNameV2(self, request: Any) -> Any:
        for sandbox in self._standin.living():
            if sandbox.definition.name == request.sandbox_name:
                metadata = api.SandboxHandleMetadata(app_id=sandbox.app_id)
                return api.SandboxGetFromNameResponse(sandbox_id=sandbox.id, metadata=metadata)
        raise GRPCError(Status.NOT_FOUND, "no such sandbox")

    SandboxGetTaskId = SandboxGetTaskIdV2
    SandboxWait = SandboxWaitV2
    SandboxTerminate = SandboxTerminateV2
    SandboxTagsGet = SandboxTagsGetV2
    SandboxTagsSet = SandboxTagsSetV2
    SandboxList = SandboxListV2
    SandboxGetFromName = SandboxGetFromNameV2

    def _sandbox(self, sandbox_id: str) -> StandinSandbox:
        if sandbox_id not in self._standin.sandboxes:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {sandbox_id} not found")
        return self._standin.sandboxes[sandbox_id]

    def _access(self) -> api.CommandRouterAccess:
        return api.CommandRouterAccess(jwt=_token(), url=self._standin.url)


def _token(seconds: int = 3600) -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': int(time.time()) + seconds})}.x"
