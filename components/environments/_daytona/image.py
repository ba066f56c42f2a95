"""What a Daytona sandbox is made from: an image, a Dockerfile's build, or a snapshot."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.requirements import Resources as Limits
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.environments._daytona.network import NetworkSettings

if TYPE_CHECKING:
    from daytona import CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams, Image

_GIB_MB = 1024


def wanted(
    required: Requirements,
    snapshot: str | None,
    name: str,
    labels: Mapping[str, str],
    lifetime_minutes: int,
    network: NetworkSettings,
    scratch: Path,
    *,
    keep: bool,
) -> "CreateSandboxFromImageParams | CreateSandboxFromSnapshotParams":
    """Blocking: reads the Dockerfile. `scratch`: an empty folder to copy its context to, which
    must be there until the sandbox is created. Variables are not given to Daytona, which would
    store them; each command gets its own."""
    from daytona import CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams

    common: dict[str, Any] = {
        "name": name,
        "labels": dict(labels),
        "os_user": None if required.user is None else "root",  # who can become anyone
        "public": False,
        "auto_stop_interval": 0,  # or a quiet command would look idle
        "auto_delete_interval": lifetime_minutes if keep else 0,  # once it stopped
        "ttl_minutes": lifetime_minutes,
        "network_block_all": network.block_all or None,
        "network_allow_list": network.network_allow_list,
        "domain_allow_list": network.domain_allow_list,
    }
    if snapshot is not None or (required.image is None and required.build is None):
        return CreateSandboxFromSnapshotParams(**common, snapshot=snapshot)
    image = required.image or _built(required, scratch)
    return CreateSandboxFromImageParams(**common, image=image, resources=_sizes(required.resources))


def dockerfile(required: Requirements) -> Path | None:
    build = required.build
    if build is None:
        return None
    return user_path(build.context, "env-params.setup.build.context") / build.dockerfile


def _built(required: Requirements, scratch: Path) -> "Image":
    from daytona import Image

    path = dockerfile(required)
    assert path is not None
    assert required.build is not None
    context = user_path(required.build.context, "env-params.setup.build.context")
    if path.parent == context:
        return Image.from_dockerfile(path)
    # The SDK reads COPY's sources beside the Dockerfile; it uploads them when it creates.
    shutil.copytree(context, scratch, symlinks=True, dirs_exist_ok=True)
    shutil.copyfile(path, scratch / "Dockerfile")
    return Image.from_dockerfile(scratch / "Dockerfile")


def _sizes(limits: Limits) -> Any:
    """Whole cores and GiB, rounded up; None: Daytona's own."""
    from daytona import Resources

    def whole(amount: float | None, unit: int = 1) -> int | None:
        return None if amount is None else math.ceil(amount / unit)

    sizes = Resources(
        cpu=whole(limits.cpus),
        memory=whole(limits.memory_mb, _GIB_MB),
        disk=whole(limits.disk_mb, _GIB_MB),
        gpu=limits.gpus,
    )
    return None if sizes == Resources() else sizes
