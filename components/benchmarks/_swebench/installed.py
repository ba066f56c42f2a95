"""The installed tools that tests are run with, compared before and after the submission's install.

Installing a repository runs code of the submission. It may add and change packages, but not the
test runner, the interpreter, or what every Python start reads.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

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
TOOLS = r"(_?pytest|pip|pluggy|iniconfig|py|tox|xdist|nose|_distutils_hack)"
SCRIPTS = r"(python[\d.]*|pytest|py\.test|tox|sh|bash|env|git|activate)"
STDLIB = ("unittest", "json", "importlib", "runpy.py", "site.py", "socket.py", "os.py",
          "traceback.py", "sitecustomize.py", "usercustomize.py")
EDITABLE = r"import (__editable___\w+_finder); *\1\.install\(\)\s*"
found = {}

def keep(path):
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            for name in names:
                if name.endswith((".py", ".so", ".json", ".toml")):
                    keep(os.path.join(folder, name))
        return
    if not os.path.lexists(path):
        return
    real = os.path.realpath(path)
    if real.startswith(workdir + os.sep):
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
for name in STDLIB:
    keep(os.path.join(stdlib, name))
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
    files: Mapping[str, str]

    @classmethod
    async def look(cls, env: Environment, activation: str) -> "Installed":
        """Raises grader.crashed."""
        command = f'{activation}"$(command -v python || command -v python3)" -I -c "$1"'
        done = await env.exec(
            ["sh", "-c", command, "sh", _WHERE], timeout_seconds=LOOK_SECONDS, output_limit_kb=64
        )
        if not done.ok:
            return cls("", {})  # no Python: nothing of the kind is used
        where = done.stdout.strip()
        return cls(where, await _files(env, where))

    async def changes(self, env: Environment) -> list[str]:
        """What is not as it was, one line each."""
        if not self.where:
            return []
        now = await _files(env, self.where)
        return [
            f"installing the submission changed {path}"
            for path in sorted(set(self.files) | set(now))
            if self.files.get(path) != now.get(path)
        ][:20]


async def _files(env: Environment, where: str) -> Mapping[str, str]:
    done = await env.exec(
        ["python3", "-I", "-S", "-c", _LOOK, where],
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
