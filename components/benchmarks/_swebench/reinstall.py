"""Install the repository once more, with the submission in it, whatever the grader's network is.

As the official harness does: what is compiled or copied must hold the submission. Build tools are
fetched beforehand, while the network is that of set-up. When it fails, the same is tried without
the submission: only what works then is the submission's fault.
"""

import secrets
from collections.abc import Awaitable, Callable

from agentcompass.components.benchmarks._swebench.preparation import (
    PIP_VARIABLES,
    Source,
    activation,
)
from agentcompass.components.benchmarks._swebench.specs import Spec
from agentcompass.components.benchmarks._swebench.test_run import run_tests
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment

INSTALL_SECONDS = 900.0
FETCH_SECONDS = 180.0

_FETCH = r"""
import re, subprocess, sys
try:
    with open("pyproject.toml", encoding="utf-8") as file:
        text = file.read()
except OSError:
    text = ""
part = re.search(r"(?ms)^\[build-system\](.*?)(?=^\[|\Z)", text)
wanted = re.search(r"(?s)requires\s*=\s*\[(.*?)\]\s*(?:#.*)?$", part.group(1) if part else "", re.M)
words = re.findall(r"\"([^\"]+)\"|'([^']+)'", wanted.group(1)) if wanted else []
names = ["".join(word) for word in words] or ["setuptools>=40.8.0"]
names.append("wheel")
if any(name.startswith("hatchling") for name in names):
    names.append("editables")
pip = [sys.executable, "-m", "pip", "wheel", "-q", "-w", sys.argv[1]]
sys.exit(subprocess.call([*pip, *names]))
"""


class Reinstall:
    def __init__(self, env: Environment, spec: Spec, source: Source) -> None:
        self._env, self._source = env, source
        self._script = "set -e\n" + activation(source) + "\n".join(spec.install_again)
        self._uses_pip = spec.language == "py" and "pip " in self._script
        self._variables = dict(PIP_VARIABLES)

    async def fetch_tools(self) -> None:
        """Under the baseline network. What cannot be had is not missed until it is needed."""
        if not self._uses_pip:
            return
        folder = f"/tmp/.wheels-{secrets.token_hex(8)}"  # noqa: S108  nobody else can guess it
        command = f'{activation(self._source)}exec python -c "$1" "$2"'
        done = await self._env.exec(
            ["sh", "-c", command, "sh", _FETCH, folder],
            env=PIP_VARIABLES,
            timeout_seconds=FETCH_SECONDS,
        )
        if done.ok:
            # An index that cannot be reached is given up soon: these are then used alone.
            self._variables |= {"PIP_FIND_LINKS": folder, "PIP_RETRIES": "2"}

    async def install(self) -> str:
        """Returns "" or why it failed."""
        # Under the warden: it ends what the submission's code leaves running.
        done = await run_tests(
            self._env,
            (self._script,),
            timeout_seconds=INSTALL_SECONDS,
            variables=self._variables,
            how="log",
        )
        if done.exit_code == 0 and not done.timed_out:
            return ""
        last = done.output.strip().rpartition("\n")[2][:300]
        ended = f"exit {done.exit_code}: {last}"
        return f"no end within {INSTALL_SECONDS:g} s" if done.timed_out else ended

    async def blame(
        self, take_back: Callable[[], Awaitable[str]], put_back: Callable[[], Awaitable[str]]
    ) -> None:
        """After a failure: raises grader.setup unless it was the submission's.

        `take_back` and `put_back` the submission; they return "" or why they could not.
        """
        if await take_back():
            return  # the submission's installation changed the submission itself
        if problem := await self.install():
            raise AgentCompassError(
                Code.GRADER_SETUP,
                f"the repository cannot be installed in the grader's sandbox, not even without "
                f"the submission ({problem}); does it need a network for that?",
            )
        if problem := await put_back():
            raise AgentCompassError(Code.GRADER_CRASHED, f"cannot be put back: {problem}")
