"""The relay's image: this very Python interpreter and nothing else, so that no registry is needed.

A subprocess that imports what the relay imports tells which files that takes: modules, the shared
objects mapped, the loader. They keep their paths; about 10 MB, made once per engine.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from agentcompass.components.contracts.errors import AgentCompassError, Code

if TYPE_CHECKING:
    from docker import DockerClient

REPOSITORY = "agentcompass/relay"
LABEL = "agentcompass.relay"
"""On the image, so that it can be told apart and removed. Containers have the sandboxes' labels."""
_COLLECT_SECONDS = 60.0

# dl_iterate_phdr names what was loaded as the loader looked for it: /lib64/ld-linux-… and
# libc.so.6, where /proc/self/maps would show what these links point to.
_COLLECT = """
import sys, _socket, ctypes, encodings.ascii, encodings.latin_1, encodings.utf_8, json, os
shared = []
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
def see(info, size, data):
    name = ctypes.cast(info + ctypes.sizeof(ctypes.c_void_p), ctypes.POINTER(ctypes.c_char_p))[0]
    shared.append(os.fsdecode(name or b""))
    return 0
ctypes.CDLL(None).dl_iterate_phdr(see, None)
modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
print(json.dumps({
    "files": [path for path in [*modules, *shared] if path and os.path.isabs(path)],
    "folders": [path for path in sys.path if os.path.isdir(path)],
}))
"""

_building = threading.Lock()


class RelayImage(NamedTuple):
    name: str
    entrypoint: tuple[str, ...]


def relay_image(client: "DockerClient", chosen: str | None) -> RelayImage:
    """For threads. The image is in the engine when this returns, unless the user chose one.

    Raises environment.start if this interpreter cannot be made into an image, and what the SDK
    raises.
    """
    if chosen is not None:
        return RelayImage(chosen, ("python3",))
    with _building:
        image = _packed()
        _ensure(client, image)
    return RelayImage(image.name, (image.python,))


class _Packed(NamedTuple):
    tag: str
    python: str
    libraries: str
    content: bytes

    @property
    def name(self) -> str:
        return f"{REPOSITORY}:{self.tag}"


def _ensure(client: "DockerClient", image: _Packed) -> None:
    from docker.errors import ImageNotFound

    try:
        client.api.inspect_image(image.name)
    except ImageNotFound:
        client.api.import_image_from_data(
            image.content,
            repository=REPOSITORY,
            tag=image.tag,
            changes=[f"ENV LD_LIBRARY_PATH={image.libraries}", f"LABEL {LABEL}=1"],
        )


@cache
def _packed() -> _Packed:
    python = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    try:
        found = subprocess.run(
            [python, "-I", "-S", "-c", _COLLECT],
            capture_output=True,
            check=True,
            timeout=_COLLECT_SECONDS,
            env={},
        )
        listed: dict[str, Any] = json.loads(found.stdout)
        files = {path: Path(path).read_bytes() for path in sorted({python, *listed["files"]})}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise _unfit(str(error)) from error
    content = _tar(files, listed["folders"], {python})
    folders = sorted({str(Path(path).parent) for path in files if ".so" in Path(path).name})
    return _Packed(hashlib.sha256(content).hexdigest()[:16], python, ":".join(folders), content)


def _tar(files: dict[str, bytes], folders: list[str], executable: set[str]) -> bytes:
    """Links on the way are resolved by repeating the file; same content, same bytes."""
    parents = {str(parent) for path in files for parent in PurePosixPath(path).parents}
    made = {*parents, *folders, *(str(p) for f in folders for p in PurePosixPath(f).parents)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in sorted(made - {"/"}):
            entry = tarfile.TarInfo(folder.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(content)
            entry.mode = 0o755 if path in executable or ".so" in path else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _unfit(reason: str) -> AgentCompassError:
    return AgentCompassError(
        Code.ENVIRONMENT_START,
        "the relay into sandboxes cannot be made from this Python interpreter "
        f"({reason}); name an image that has python3 with --env-params relay_image=…",
    )
