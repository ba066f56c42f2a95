"""What tests are run with and judged by, compared before and after the submission's install.

Installing a repository runs code of the submission. It may add and change packages, but not the
test runner, the interpreters and their standard libraries (the instance's and the warden's), what
every Python start reads, or the instance's tests.
"""

import json
import posixpath
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentcompass.components.benchmarks._swebench.protected import STEERING_NAMES
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment

LOOK_SECONDS = 120.0

_WHERE = """
import json, os, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps([sys.executable, sorted({paths["purelib"], paths["platlib"]}), paths["stdlib"],
                  paths["scripts"], os.getcwd()]))
"""

_LOOK = r"""
import hashlib, json, os, re, sys
executable, sites, stdlib, scripts, workdir = json.loads(sys.argv[1])
own_files = json.loads(sys.argv[2])
TOOLS = r"(_?pytest|pip|pluggy|iniconfig|py|tox|xdist|nose|_distutils_hack)"
SCRIPTS = r"(python[\d.]*|pytest|py\.test|tox|sh|bash|env|git|activate)"
BESIDE = ("site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib")
EDITABLE = r"import (__editable___\w+_finder); *\1\.install\(\)\s*"
found = {}

def keep(path, own=False):
    if os.path.isdir(path):
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if name not in BESIDE]
            for name in names:
                if name.endswith((".py", ".so", ".json", ".toml")):
                    keep(os.path.join(folder, name))
        return
    if not os.path.lexists(path):
        return
    real = os.path.realpath(path)
    if real.startswith(workdir + os.sep) and not own:
        return  # the repository's own, judged as such
    digest = hashlib.sha256(os.fsencode(real))
    if os.path.isfile(real):  # else a link that leads nowhere, yet
        with open(real, "rb") as file:
            digest.update(file.read())
    found[path] = digest.hexdigest()

for site in sites:
    for name in os.listdir(site) if os.path.isdir(site) else ():
        path = os.path.join(site, name)
        if re.fullmatch(TOOLS + r"(\.py)?", name) or name in ("sitecustomize.py",
                                                              "usercustomize.py"):
            keep(path)
        elif name.endswith(".pth"):
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            own = all(not line.strip() or os.path.realpath(line.strip()).startswith(workdir)
                      for line in text.splitlines())
            if not own and not re.fullmatch(EDITABLE, text):
                keep(path)
for library in {stdlib, os.path.dirname(os.__file__)}:
    keep(library)
keep(sys.executable)
for name in own_files:
    keep(os.path.join(workdir, name), own=True)
for place in ("/etc", "~/.pip", "~/.config/pip", os.path.dirname(scripts)):
    keep(os.path.join(os.path.expanduser(place), "pip.conf"))
for name in os.listdir(scripts) if os.path.isdir(scripts) else ():
    if re.fullmatch(SCRIPTS, name):
        keep(os.path.join(scripts, name))
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Installed:
    """Paths with the hash of where they lead and what they hold."""

    where: str
    own_files: tuple[str, ...]
    files: Mapping[str, str]

    @classmethod
    async def look(
        cls, env: Environment, activation: str, tests: Iterable[str] = ()
    ) -> "Installed":
        """`tests`: the instance's, in the working tree. Raises grader.crashed."""
        command = f'{activation}"$(command -v python || command -v python3)" -I -c "$1"'
        done = await env.exec(
            ["sh", "-c", command, "sh", _WHERE], timeout_seconds=LOOK_SECONDS, output_limit_kb=64
        )
        if not done.ok:
            return cls("", (), {})  # no Python: nothing of the kind is used
        where, own_files = done.stdout.strip(), _beside(tests)
        return cls(where, own_files, await _files(env, where, own_files))

    async def changes(self, env: Environment) -> list[str]:
        """What is not as it was, one line each."""
        if not self.where:
            return []
        now = await _files(env, self.where, self.own_files)
        return [
            f"installing the submission changed {path}"
            for path in sorted(set(self.files) | set(now))
            if self.files.get(path) != now.get(path)
        ][:20]


def _beside(tests: Iterable[str]) -> tuple[str, ...]:
    """The tests, and what would steer their runner from a folder above them."""
    found = set(tests)
    for path in tuple(found):
        while path:
            path = posixpath.dirname(path)
            found.update(posixpath.join(path, name) for name in STEERING_NAMES)
    return tuple(sorted(found))


async def _files(env: Environment, where: str, own_files: tuple[str, ...]) -> Mapping[str, str]:
    done = await env.exec(
        ["python3", *from_source(), "-c", _LOOK, where, json.dumps(own_files)],
        cwd="/",
        timeout_seconds=LOOK_SECONDS,
        output_limit_kb=8 * 1024,
    )
    try:
        found: Mapping[str, str] = json.loads(done.stdout)
    except ValueError:
        reason = done.stderr.strip().rpartition("\n")[2][:300]
        raise AgentCompassError(
            Code.GRADER_CRASHED, f"the installed tools cannot be read: {reason}"
        ) from None
    return found


def from_source() -> tuple[str, ...]:
    """Options of a Python that takes nothing but its library, and that not from a cache."""
    return "-I", "-S", "-B", "-X", f"pycache_prefix=/nonexistent-{secrets.token_hex(8)}"
