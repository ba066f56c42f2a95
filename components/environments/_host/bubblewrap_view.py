"""What an isolated `host_process` sandbox sees of this machine, as arguments for bubblewrap.

Read-only: the system's programs and libraries, the few parts of /etc they need, and what else
the search path leads to; never a home directory as such. Of its own: the workspace, /tmp, the
home directory, /dev, /proc, users and groups. Nothing else exists there.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments._host import ending as _ending
from agentcompass.components.environments._host import keeper as _keeper

HOME = "/home/user"
USER = "user"
WORKDIR = "/workspace"
FOLDERS = ("work", "home", "tmp", "shm")
SOCKETS = "model"
"""Folder in the sandbox's root on this machine, and under /run inside: ours, to listen in."""
_INSIDE = "/run/agentcompass"
_UNDER = "components/environments/_host"
_KEEPER = (
    f"import os, sys; sys.path.append({_INSIDE!r}); "
    f"from agentcompass.{_UNDER.replace('/', '.')}.keeper import main; "
    "os._exit(main(sys.argv[1:]))"
)
_SYSTEM = ("/usr", "/nix", "/gnu/store")
_LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Not /etc/ssl or /etc/pki as such: they hold private keys, too.
_ETC = (
    *("alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies"),
    *("debian_version", "fonts", "gai.conf", "host.conf", "inputrc", "java", "ld.so.cache"),
    *("ld.so.conf", "ld.so.conf.d", "localtime", "lsb-release", "magic", "mime.types", "nanorc"),
    *("nsswitch.conf", "os-release", "perl", "pki/ca-trust/extracted", "pki/tls/cert.pem"),
    *("pki/tls/certs", "profile", "profile.d", "protocols", "python3", "resolv.conf", "rpc"),
    *("services", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo"),
    *("timezone", "vim"),
)
_REFUSED_BELOW = ("/usr", "/proc", "/dev", "/sys", "/nix", "/gnu", "/run", *_LINKED)
_REFUSED = ("/", "/etc", "/home", "/tmp", "/var", HOME)  # noqa: S108


_INSTALLED = ("lib", "lib64", "libexec", "versions", "pyvenv.cfg")


@dataclass(frozen=True)
class Bubblewrap:
    """The program, and what this version of it can do."""

    path: str
    no_nested_users: bool
    """It can forbid user namespaces inside."""


def refused_workdir(workdir: str) -> bool:
    """Whether a workspace there would hide what programs need, or be hidden itself."""
    place = os.path.normpath(workdir)
    if not place.startswith("/") or place.startswith("//") or place in _REFUSED:
        return True
    return any(place == other or place.startswith(f"{other}/") for other in _REFUSED_BELOW)


def arguments(
    bubblewrap: Bubblewrap,
    root: str,
    *,
    workdir: str,
    user: int | None,
    path: str,
    python: str,
    python_root: str,
    network: bool,
) -> list[str]:
    """`user`: who commands run as (we are root); None: we are not, and they run as us.

    As root the view is built with root's rights, which process 1 then gives up for good: root
    in a user namespace would still own every file and kernel setting that is root's.
    """
    argv = [bubblewrap.path, "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    argv += ["--unshare-cgroup-try", "--hostname", "sandbox", "--new-session", "--cap-drop", "ALL"]
    if user is not None:
        argv += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        argv += ["--unshare-user", "--uid", "1000", "--gid", "1000"]
        if bubblewrap.no_nested_users:
            argv.append("--disable-userns")
    if not network:
        argv.append("--unshare-net")
    argv += ["--die-with-parent", "--as-pid-1", "--clearenv"]
    # What a root in memory takes, no limit counts; and it would not outlive a change of network.
    argv += [*_view(root, workdir, path, python_root), "--remount-ro", "/dev", "--remount-ro", "/"]
    argv += ["--chdir", "/", "--", python, "-I", "-S", "-c", _KEEPER]
    return [*argv, "--inside", "" if user is None else str(user)]


def _view(root: str, workdir: str, path: str, python_root: str) -> list[str]:
    mounts = _Mounts()
    mounts.argv += ["--proc", "/proc", "--dev", "/dev"]
    mounts.bind(f"{root}/shm", "/dev/shm", writable=True)  # noqa: S108
    _system(mounts)
    _etc(mounts, root)
    mounts.bind(f"{root}/tmp", "/tmp", writable=True)  # noqa: S108
    mounts.bind(f"{root}/home", HOME, writable=True)
    for place in _toolchains(path.split(os.pathsep), python_root):
        if _is_below(place, (workdir,)):
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                f"host_process cannot give a task the directory {workdir}: programs that "
                f"commands need are in it ({place}); use --env docker",
            )
        mounts.bind(place, place)
    mounts.link("/tmp", "/var/tmp")  # noqa: S108
    mounts.bind(f"{root}/{SOCKETS}", f"/run/{SOCKETS}")
    for module in (_keeper, _ending):  # the keeper's own source
        source = str(module.__file__)
        mounts.bind(source, f"{_INSIDE}/agentcompass/{_UNDER}/{Path(source).name}")
    mounts.bind(f"{root}/work", workdir, writable=True)
    return mounts.argv


class _Mounts:
    """Arguments in order; the folders on the way to each place are made for all to enter."""

    def __init__(self) -> None:
        self.argv: list[str] = []
        self._there = {"/", "/proc", "/dev"}

    def bind(self, source: str, place: str, *, writable: bool = False) -> None:
        self._make_way(place)
        self.argv += ["--bind" if writable else "--ro-bind", source, place]
        self._there.add(place)

    def link(self, target: str, place: str) -> None:
        self._make_way(place)
        self.argv += ["--symlink", target, place]

    def _make_way(self, place: str) -> None:
        for folder in [str(parent) for parent in reversed(Path(place).parents)]:
            if folder not in self._there:
                self.argv += ["--dir", folder]
                self._there.add(folder)


def files(user: int | None) -> dict[str, str]:
    """Contents of what the guard puts in the sandbox's root folder."""
    number = 1000 if user is None else user
    nobody = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    return {
        "passwd": f"root:x:0:0:root:/root:/bin/sh\n{USER}:x:{number}:{number}::{HOME}:/bin/sh\n"
        + nobody,
        "group": f"root:x:0:\n{USER}:x:{number}:\nnogroup:x:65534:\n",
    }


def _system(mounts: _Mounts) -> None:
    for place in _SYSTEM:
        if _is_folder(place):
            mounts.bind(place, place)
    for name in _LINKED:
        if Path(name).is_symlink():
            mounts.link(str(Path(name).readlink()), name)
        elif _is_folder(name):
            mounts.bind(name, name)


def _etc(mounts: _Mounts, root: str) -> None:
    for name in _ETC:
        place = f"/etc/{name}"
        if os.access(
            place, os.R_OK
        ):  # what is behind a link, as a file: it may lead out of the view
            mounts.bind(os.path.realpath(place), place)
    for name in ("passwd", "group", "hosts"):
        mounts.bind(f"{root}/{name}", f"/etc/{name}")
    mounts.link("/proc/self/mounts", "/etc/mtab")


def _toolchains(search_path: Sequence[str], python_root: str) -> Iterable[str]:
    """What programs on the search path need outside the system's folders."""
    wanted = [python_root]
    for place in search_path:
        if place.startswith("/") and _is_folder(place):
            wanted += _toolchain(place)
    shown = [*_SYSTEM, *_LINKED]
    for place in sorted(set(wanted), key=len):
        if not _is_below(place, shown) and _is_folder(place):
            shown.append(place)
            yield place


def _toolchain(folder: str) -> Iterable[str]:
    """The folder itself, its installation, and those its links lead to."""
    homes = _homes()
    real = os.path.realpath(folder)
    if any(home.is_relative_to(real) for home in homes):
        return
    yield folder
    yield from _installation(folder)
    if _is_below(real, _SYSTEM):
        return
    yield real
    for entry in os.scandir(folder):
        if entry.is_symlink():
            target = os.path.realpath(entry.path)
            if not _is_below(target, (*_SYSTEM, real)):
                yield from _installation(str(Path(target).parent))


def _installation(folder: str) -> Iterable[str]:
    """What lies around a folder of programs, if it looks like one and is not someone's home, nor
    a folder right in a home that keeps credentials, too, such as ~/.local or ~/.cargo."""
    place = Path(folder).parent
    if not any(os.access(place / part, os.R_OK) for part in _INSTALLED):
        return
    for home in _homes():
        if home.is_relative_to(place):
            return
        if place.parent == home and place.name.startswith(".") and place.name != ".pyenv":
            return
    yield str(place)


def _homes() -> set[Path]:
    home = Path.home()
    others = Path("/home").iterdir() if _is_folder("/home") else ()
    return {home, Path(os.path.realpath(home)), Path("/root"), *others}


def _is_folder(place: str) -> bool:
    """One that we can look into; what we cannot, bubblewrap cannot show."""
    return os.access(f"{place}/.", os.R_OK | os.X_OK)


def _is_below(place: str, folders: Iterable[str]) -> bool:
    return any(place == folder or place.startswith(f"{folder}/") for folder in folders)
