"""Every reason why Daytona sandboxes could not open, before anything is spent."""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.errors import AgentCompassError, RequestError
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments._daytona import calls
from agentcompass.components.environments._daytona.client import (
    KEY,
    DaytonaClients,
    load,
    missing_key,
)
from agentcompass.components.environments._daytona.image import dockerfile
from agentcompass.components.environments._daytona.network import settings

if TYPE_CHECKING:
    from daytona import AsyncDaytona

REACH_SECONDS = 15.0
"""For the API to answer at all."""


async def preflight(
    clients: DaytonaClients, requirements: Iterable[Requirements], snapshot: str | None
) -> list[str]:
    counted: Counter[str] = Counter()
    for required in requirements:
        counted.update(set(_problems(required, snapshot)))
    problems = [
        problem if count == 1 else f"{problem} ({count} tasks)"
        for problem, count in sorted(counted.items())
    ]
    if not os.environ.get(KEY, "").strip():
        return [*problems, f"daytona: {missing_key()}"]
    try:
        await asyncio.to_thread(load)
        return [*problems, *await _asked(clients, snapshot)]
    except AgentCompassError as error:
        return [*problems, f"daytona: {error}"]


def _problems(required: Requirements, snapshot: str | None) -> list[str]:
    problems = []
    if required.platform not in (None, "linux", "linux/amd64"):
        problems.append(f"daytona: sandboxes are linux/amd64, not {required.platform}")
    from_image = snapshot is None and (required.image is not None or required.build is not None)
    sizes = required.resources.model_dump(exclude_none=True)
    if sizes and not from_image:
        problems.append(
            f"daytona: {', '.join(sorted(sizes))} can be set only together with an image, not "
            "for a snapshot; give setup.image, or make a snapshot of that size"
        )
    if snapshot is None and required.image is not None and _is_latest(required.image):
        problems.append(
            f"daytona: the image {required.image} needs a tag other than latest, or a digest"
        )
    path = dockerfile(required)
    if path is not None and not path.is_file():
        problems.append(f"daytona: there is no Dockerfile at {path}")
    for phase in ("baseline", "run", "evaluation"):
        try:
            settings(required.network.during(phase))
        except ValueError as error:
            problems.append(f"daytona: network of the {phase} phase: {error}")
    try:
        resolved(required.env, os.environ, "requirements.env")
    except RequestError as error:
        problems.append(str(error))
    return problems


async def _asked(clients: DaytonaClients, snapshot: str | None) -> list[str]:
    from daytona import ListSandboxesQuery

    async with clients.client() as client:

        async def ask() -> None:
            async for _ in client.list(ListSandboxesQuery(limit=1)):
                return

        try:
            await calls.call(ask, call_seconds=REACH_SECONDS, patience_seconds=REACH_SECONDS / 2)
        except Exception as error:  # whatever the SDK and its transports raise
            status = calls.status_of(error)
            if status in (401, 403):
                return [f"daytona: {calls.refused_key()}"]
            detail = calls.one_line(error) if status else "no answer"
            return [
                f"daytona: the API at {clients.api_url} cannot be reached ({detail}); see "
                "DAYTONA_API_URL, the network and https://status.app.daytona.io"
            ]
        return [] if snapshot is None else await _snapshot_problems(client, snapshot)


async def _snapshot_problems(client: "AsyncDaytona", snapshot: str) -> list[str]:
    try:
        await calls.call(lambda: client.snapshot.get(snapshot), patience_seconds=REACH_SECONDS)
    except Exception as error:  # whatever the SDK and its transports raise
        if calls.status_of(error) == 404:
            return [f"daytona: there is no snapshot {snapshot!r} in this account"]
        return [f"daytona: the snapshot {snapshot!r} cannot be read: {calls.one_line(error)}"]
    return []


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"
