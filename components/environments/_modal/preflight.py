"""What can be known before the first sandbox opens, one line each."""

import inspect
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.environments._modal import network as _network
from agentcompass.components.environments._modal.client import HOW_TO_LOG_IN, SharedClient
from agentcompass.components.environments._modal.errors import Trouble, one_line, trouble, within
from agentcompass.components.environments._modal.images import NO_IMAGE

REACH_SECONDS = 15.0
_OURS = frozenset({"app", "name", "client", "image", "tags", "timeout", "args"})


def problems(requirements: Sequence[Requirements], default_image: str | None) -> list[str]:
    """Each once, with how many tasks have it."""
    found: Counter[str] = Counter()
    for required in requirements:
        found.update(list(dict.fromkeys(_of(required, default_image))))
    several = len(requirements) > 1
    return [f"{text} ({count} tasks)" if several else text for text, count in found.items()]


def _of(required: Requirements, default_image: str | None) -> list[str]:
    found = _network.problems(required.network)
    if required.build is not None:
        context = user_path(required.build.context, "env-params.setup.build.context")
        dockerfile = context / required.build.dockerfile
        if not dockerfile.is_file():
            found.append(f"modal: there is no {dockerfile} to build from")
    elif not (required.image or default_image):
        found.append(NO_IMAGE)
    if required.platform not in (None, "linux/amd64"):
        found.append(f"modal runs linux/amd64 only, not {required.platform}")
    if required.workdir is not None and not required.workdir.startswith("/"):
        found.append(f"modal: the workdir {required.workdir} is not an absolute path")
    try:
        resolved(required.env, os.environ, "requirements.env")
    except RequestError as error:
        found.append(str(error))
    return found


def not_installed() -> str | None:
    try:
        import modal  # noqa: F401
    except ImportError as error:
        return f"modal: its SDK cannot be imported ({error}); run `pip install 'modal>=1.6,<1.7'`"
    return None


def unknown_extras(extras: Mapping[str, Any]) -> list[str]:
    import modal

    known = set(inspect.signature(modal.Sandbox.create).parameters) - _OURS
    return [
        f"env-params.extras.{name}: `modal.Sandbox.create` has no such argument, or we give it"
        for name in extras
        if name not in known
    ]


async def unreachable(client: SharedClient) -> str | None:
    """One cheap call, in `REACH_SECONDS` at the most."""
    try:
        return await within(REACH_SECONDS, _said_hello(client))
    except Exception as error:  # sorted by `trouble`; what it does not know rises
        match trouble(error):
            case Trouble.REFUSED_US:
                return f"modal: not logged in, or refused ({one_line(error)}); {HOW_TO_LOG_IN}"
            case None:
                raise
        return f"modal: the service cannot be reached ({one_line(error)})"


async def _said_hello(client: SharedClient) -> None:
    async with client.use(REACH_SECONDS) as connected:
        await connected.hello.aio()  # type: ignore[no-untyped-call]
