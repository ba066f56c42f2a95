"""What the engine and its machine are: processor, memory, storage."""

import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcompass.components.environments._docker.engine import Engine

MIB = 1024 * 1024
FULL_MB = 200
"""With less free than this nothing is pulled or built: an engine without any space left cannot
even remove a container."""
LOW_MB = 5 * 1024

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}
_EMULATORS = {"amd64": "x86_64", "arm64": "aarch64", "386": "i386"}
_NARROWER = {"amd64": {"386"}, "arm64": {"arm"}}
"""What a processor runs besides its own."""


@dataclass(frozen=True)
class Machine:
    engine_id: str
    system: str
    architecture: str
    """As images name it: amd64, arm64, …"""
    cpus: int
    memory_mb: int
    data_root: str
    driver: str
    backing: str
    """The file system under the storage driver."""
    runtimes: frozenset[str]
    devices: tuple[str, ...]
    """GPUs the engine lists by itself (28 and later)."""
    here: bool
    """The engine runs on this very kernel, and its files can be looked at."""

    @property
    def platform(self) -> str:
        return f"{self.system}/{self.architecture}"

    def runs(self, wanted: str) -> bool:
        """`wanted` is `os/architecture[/variant]`. True where that cannot be ruled out."""
        system, architecture = split_platform(wanted)
        if system and system != self.system:
            return False
        if architecture in ("", self.architecture):
            return True
        if architecture in _NARROWER.get(self.architecture, ()) or not self.here:
            return True
        emulator = _EMULATORS.get(architecture, architecture)
        return Path(f"/proc/sys/fs/binfmt_misc/qemu-{emulator}").exists()

    def native(self, wanted: str) -> bool:
        """Without emulation."""
        system, architecture = split_platform(wanted)
        return system in ("", self.system) and (
            architecture in ("", self.architecture)
            or architecture in _NARROWER.get(self.architecture, ())
        )

    def free_mb(self) -> int | None:
        """Where images and containers are stored; None: cannot be seen from here."""
        if not self.here:
            return None
        try:
            return shutil.disk_usage(self.data_root).free // MIB
        except OSError:
            return None

    def limits_disk(self) -> bool:
        """Whether a container's own layer can have a size. True where it cannot be ruled out."""
        if self.driver in ("btrfs", "zfs", "devicemapper", "windowsfilter"):
            return True
        if self.driver != "overlay2" or self.backing != "xfs":
            return False
        return not self.here or "quota" in _mount_options(Path(self.data_root))

    def has_gpu(self) -> bool:
        """True where it cannot be ruled out."""
        if self.devices or any("nvidia" in name for name in self.runtimes):
            return True
        return not self.here or shutil.which("nvidia-container-runtime-hook") is not None


async def machine(engine: Engine) -> Machine:
    """Raises what the SDK raises."""
    info: Mapping[str, Any] = await engine.call(lambda client: client.api.info())
    status = {row[0]: row[1] for row in info.get("DriverStatus") or () if len(row) == 2}
    devices = info.get("DiscoveredDevices") or ()
    return Machine(
        engine_id=str(info.get("ID") or ""),
        system=str(info.get("OSType") or "linux"),
        architecture=architecture(str(info.get("Architecture") or "")),
        cpus=int(info.get("NCPU") or 0),
        memory_mb=int(info.get("MemTotal") or 0) // MIB,
        data_root=str(info.get("DockerRootDir") or ""),
        driver=str(info.get("Driver") or ""),
        backing=str(status.get("Backing Filesystem", "")),
        runtimes=frozenset(info.get("Runtimes") or ()),
        devices=tuple(str(device.get("ID", "")) for device in devices),
        here=_is_here(info),
    )


def platform_problem(offered: tuple[str, ...], wanted: str | None, here: Machine) -> str | None:
    """Why an image for the `offered` platforms cannot run as `wanted` (None: natively) here."""
    known = [one for one in offered if not re.search(r"(^|/)(unknown)?$", one)]
    if not known:
        return None
    if wanted is not None:
        if not any(matches(one, wanted) for one in known):
            return f"it is for {', '.join(known)}, not for {wanted} (setup.platform)"
        if not here.runs(wanted):
            return (
                f"it is for {wanted}, which the Docker engine ({here.platform}) cannot "
                "run: no emulation (binfmt) is installed on its machine"
            )
        return None
    if any(here.native(one) for one in known):
        return None
    return (
        f"it is for {', '.join(known)}, but the Docker engine runs {here.platform}; use "
        f"an image for {here.architecture}, or set setup.platform to run it under emulation"
    )


def matches(offered: str, wanted: str) -> bool:
    """`linux/arm64` satisfies `linux/arm64/v8` and `arm64`; what is not said, anything."""
    return all(
        not one or not other or one == other
        for one, other in zip(split_platform(offered), split_platform(wanted), strict=True)
    )


def architecture(name: str) -> str:
    name = name.lower()
    return "arm" if name.startswith("armv") else _ARCHITECTURES.get(name, name)


def split_platform(wanted: str) -> tuple[str, str]:
    """System and architecture of `linux/arm64/v8` or `arm64`; "" where not said."""
    parts = wanted.lower().split("/")
    if len(parts) == 1:
        return "", architecture(parts[0])
    return parts[0], architecture(parts[1])


def _is_here(info: Mapping[str, Any]) -> bool:
    """Same kernel, same name: not a virtual machine's, not another host's."""
    return (
        info.get("KernelVersion") == os.uname().release
        and info.get("Name") == platform.node()
        and Path(str(info.get("DockerRootDir") or "/nonexistent")).is_absolute()
    )


def _mount_options(path: Path) -> str:
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return _options_of(path, lines.splitlines())


def _options_of(path: Path, mounts: Iterable[str]) -> str:
    best, options = -1, ""
    for line in mounts:
        fields = line.split()
        point = fields[1].replace("\\040", " ") if len(fields) > 3 else ""
        if point and path.is_relative_to(point) and len(point) >= best:
            best, options = len(point), fields[3]
    return options
