"""Files of a Daytona sandbox, handled by small scripts inside: as the user who runs commands,
whatever a file is called, and under limits that hold before bytes travel."""

import asyncio
import errno
import os
import posixpath
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Capture, CaptureLimits
from agentcompass.components.environments._daytona import calls
from agentcompass.components.environments._daytona.capture import capture
from agentcompass.components.environments._daytona.commands import DaytonaCommands, Outcome

_INLINE_BYTES = 32_000
_ERRORS = {
    20: errno.ENOENT,
    21: errno.EISDIR,
    22: errno.EACCES,
    23: errno.EACCES,
    25: errno.EIO,
    26: errno.ELOOP,
    27: errno.ENOTDIR,
}
"""What the scripts' exit codes stand for; 24: larger than allowed."""

_READ = r"""
[ -e "$1" ] || exit 20
[ ! -d "$1" ] || exit 21
[ -f "$1" ] || { echo "not a regular file" >&2; exit 23; }
[ -r "$1" ] || exit 22
size=$(stat -L -c %s "$1") || exit 25
[ -z "$2" ] || [ "$size" -le "$2" ] || exit 24
echo "$size"
[ "$size" -gt "$3" ] || head -c $(($3 + 1)) "$1"
"""

_WRITE = r"""
[ -L "$1" ] || [ ! -d "$1" ] || exit 21
parent=${1%/*}; parent=${parent:-/}
mkdir -p "$parent" || exit 22
beside=$parent/.agentcompass-$3
cat > "$beside" && chmod "$2" "$beside" && { [ ! -L "$1" ] || rm -f "$1"; } &&
  mv -f "$beside" "$1" && exit 0
rm -f "$beside"
[ -w "$parent" ] && exit 25
exit 22
"""

_UNPACK = r"""
if [ "$2" = file ]; then
  [ -L "$1/$3" ] || [ ! -d "$1/$3" ] || exit 21
fi
mkdir -p "$1" || exit 22
cd "$1" || exit 22
tar -x -p -o -f - || exit 25
"""


class DaytonaFiles:
    def __init__(self, commands: DaytonaCommands, user: str | None) -> None:
        self._commands = commands
        self._user = user

    def path(self, name: str) -> str:
        if "\0" in name:
            raise FileNotFoundError(errno.ENOENT, "the path holds a NUL character", name)
        joined = posixpath.join(self._commands.place.workdir, name)
        return posixpath.normpath(joined)

    async def read(self, name: str, max_bytes: int | None) -> bytes:
        path = self.path(name)
        most = "" if max_bytes is None else str(max_bytes)
        inline = _INLINE_BYTES if max_bytes is None else min(_INLINE_BYTES, max_bytes)
        outcome = await self._script(_READ, path, most, str(inline), limit=2 * _INLINE_BYTES)
        if outcome.exit_code == 24:
            raise ValueError(f"{name} is larger than {max_bytes} bytes")
        _check(outcome, name)
        size, _, content = outcome.stdout.content.partition(b"\n")
        if int(size) <= inline:
            if len(content) <= inline:
                return content
            if max_bytes is not None and len(content) > max_bytes:
                raise ValueError(f"{name} is larger than {max_bytes} bytes")
        return await self._download(path, int(size), max_bytes)

    async def write(self, name: str, content: bytes, mode: int) -> None:
        if name.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        token = os.urandom(6).hex()
        path = self.path(name)
        _check(await self._script(_WRITE, path, f"{mode:o}", token, stdin=content), name)

    async def upload(self, source: Path, target: str) -> None:
        folder, name = self.path(target), ""
        with tempfile.NamedTemporaryFile(prefix="agentcompass-", suffix=".tar") as packed:
            whole = await asyncio.to_thread(_packed, source, packed, posixpath.basename(folder))
            if not whole:
                folder, name = posixpath.split(folder)
            part = f"upload-{os.urandom(6).hex()}"
            await self._commands.put(part, packed.name, Path(packed.name).stat().st_size)
        # Opened by the shell that starts the script, before it becomes another user.
        place = self._commands.place
        kind = "folder" if whole else "file"
        try:
            outcome = await self._script(
                _UNPACK, folder, kind, name, stdin_file=f"{place.here}/{part}"
            )
        finally:
            self._commands.forget(part)
        _check(outcome, target)

    async def capture(self, name: str, limits: CaptureLimits) -> Capture:
        outcome, captured = await capture(self._commands, self._user, self.path(name), limits)
        if outcome.exit_code == 26:
            return Capture((), (f"{name}: a link, not followed",))
        _check(outcome, name)
        return captured

    async def _script(
        self,
        script: str,
        *arguments: str,
        stdin: bytes | None = None,
        stdin_file: str | None = None,
        limit: int = 16_384,
    ) -> Outcome:
        outcome = await self._commands.run(
            ["/bin/sh", "-c", script, "sh", *arguments],
            cwd="/",
            variables={"LC_ALL": "C"},
            user=self._user,
            stdin=stdin,
            stdin_file=stdin_file,
            limit_bytes=limit,
        )
        if outcome.refused:
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP, f"there is no user {self._user!r} in the sandbox"
            )
        return outcome

    async def _download(self, path: str, size: int, max_bytes: int | None) -> bytes:
        """Under a plain name: multipart headers do not carry every one."""
        link = f"download-{os.urandom(6).hex()}"
        place = self._commands.place
        made = await self._commands.run(
            ["ln", "-s", path, f"{place.here}/{link}"], cwd="/", limit_bytes=4096
        )
        _check(made, path)
        sandbox = self._commands.sandbox

        async def fetch() -> bytes:
            content = bytearray()
            async for chunk in await sandbox.fs.download_file_stream(f"{place.here}/{link}", 0):
                content += chunk
                if max_bytes is not None and len(content) > max_bytes:
                    break
            return bytes(content)

        try:
            content = await self._commands.toolbox(fetch, call_seconds=calls.transfer_seconds(size))
        finally:
            self._commands.forget(link)
        if max_bytes is not None and len(content) > max_bytes:
            raise ValueError(f"{path} is larger than {max_bytes} bytes")
        return content


def _check(outcome: Outcome, name: str) -> None:
    if outcome.exit_code == 0:
        return
    detail = " ".join(outcome.stderr.content.decode("utf-8", "replace").split())[:300]
    if "No space left" in detail:
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP, f"no space is left in the sandbox for {name}"
        )
    number = _ERRORS.get(outcome.exit_code, errno.EIO)
    if "Not a directory" in detail or "File exists" in detail:
        number = errno.ENOTDIR
    raise OSError(number, detail or os.strerror(number), name)


def _packed(source: Path, archive: "IO[bytes]", name: str) -> bool:
    """Pack a folder's content, or one file under `name`; True for a folder.

    The source itself may be a link; links below it stay links.
    """
    source = source.resolve(strict=True)
    whole = source.is_dir()
    if not whole and not source.is_file():
        raise ValueError(f"{source} is neither file nor folder")
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as packed:
        if not whole:
            packed.add(source, name, filter=_anonymous)
        else:
            for entry in sorted(source.iterdir()):
                packed.add(entry, f"./{entry.name}", filter=_anonymous)
    archive.flush()
    return whole


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    if not (member.isfile() or member.isdir() or member.issym()):
        raise ValueError(f"{member.name} is neither file, folder nor link")
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
