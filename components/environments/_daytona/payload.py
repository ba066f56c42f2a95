"""The shell text that one command in a Daytona sandbox is started by."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentcompass.components.environments._daytona.scripts import MARK

_LONG_LINE = 100_000
"""Bytes; the kernel takes no single argument over 128 KiB."""


@dataclass(frozen=True)
class Place:
    """What the sandbox said of itself when it opened."""

    here: str
    """The private folder of the command runner."""
    workdir: str
    shell: str
    """`bash` or `sh`."""
    user: str
    """Who commands run as unless told otherwise."""
    root: bool
    """May become another user."""


def payload(
    place: Place,
    command: str | Sequence[str],
    *,
    cwd: str,
    variables: Mapping[str, str],
    user: str | None,
    stdin_file: str | None,
    command_id: str,
) -> bytes:
    """Run by `sh` with the job's folder as $1."""
    lines = ['echo $$ > "$1/main"']  # it stays the same process to the end
    if stdin_file is not None:
        lines.append(f"exec < {_quoted(stdin_file)} || exit 126")
    if isinstance(command, str):
        argv = [shlex.quote(place.shell), "-c", _quoted(command)]
        if len(_encoded(command)) > _LONG_LINE:
            end = f"END-{command_id}"
            lines.append(f"cat > \"$1/line\" <<'{end}'\n{command}\n{end}")
            argv = [shlex.quote(place.shell), '"$1/line"']
    else:
        argv = [_quoted(part) for part in command]
        if "=" in command[0]:  # `env` would take it for a variable
            argv = ["sh", "-c", '\'exec "$0" "$@"\'', *argv]
    given = [_quoted(f"{name}={value}") for name, value in variables.items()]
    mark = f"{MARK}={command_id}"
    start = "exec"
    if user is not None and user != place.user:
        lines.append(f"user={_quoted(user)}\n{_BECOME}")
        given = ['HOME="$home"', f"USER={_quoted(user)}", f"LOGNAME={_quoted(user)}", *given]
        start = "become"
    lines.append(f"cd {_quoted(cwd)} || exit 126")
    lines.append(" ".join([start, "env", *given, mark, *argv]))
    return _encoded("\n".join(lines) + "\n")


_BECOME = r"""
if ! id -u "$user" >/dev/null 2>&1; then
  echo "there is no user $user in the sandbox" >&2
  : > "$1/refused"
  exit 126
fi
home=$(awk -F: -v user="$user" '$1 == user { print $6 }' /etc/passwd 2>/dev/null)
home=${home:-/}
become() {
  if setpriv --help 2>&1 | grep -q init-groups; then
    exec setpriv --reuid="$(id -u "$user")" --regid="$(id -g "$user")" --init-groups -- "$@"
  fi
  exec su -s /bin/sh -c 'exec "$0" "$@"' -- "$user" "$@"  # busybox
}"""


def _quoted(text: str) -> str:
    return shlex.quote(text)


def _encoded(text: str) -> bytes:
    """As bytes; what came from undecodable names goes back as it was."""
    try:
        return text.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", errors="replace")
