"""Put an instance's repository into the sandbox and install it, or take the image's as it is.

`prebaked`   the published image holds the repository at the workdir, installed
`git_clone`  the repository's past is fetched on this machine, uploaded and installed inside

Either way its history ends at the base commit, and that is checked.
"""

import asyncio
import shlex
from pathlib import Path
from typing import Literal

from agentcompass.components.benchmarks._patch import NEUTRAL
from agentcompass.components.benchmarks._swebench.mirror import (
    file_at,
    mirror_with,
    repository_pack,
)
from agentcompass.components.benchmarks._swebench.rows import Instance
from agentcompass.components.benchmarks._swebench.scrubbing import check_scrubbed, scrub
from agentcompass.components.benchmarks._swebench.specs import Spec, requirement_paths
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.sandbox import Environment, ExecResult

Preparation = Literal["prebaked", "git_clone"]
NO_REQUIREMENTS = ("-e .", "#", ".[test", "-r", "--requirement", "types-pkg_resources")
"""Lines of requirement files that are not installed: as the official harness, and what PyPI
withdrew."""


PIP_VARIABLES = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_NO_INPUT": "1",
    "PIP_RETRIES": "8",
    "PIP_DEFAULT_TIMEOUT": "60",
}


class Source(Frozen):
    """Where repositories come from, and how they are installed."""

    preparation: Preparation
    url: str = ""
    """Of the instance's repository."""
    history_depth: int | None = None
    python: str = ""
    """A command or path; `{version}` stands for the pinned version. Empty: found by version."""
    venv: str = ""
    """Directory of the virtual environment; relative: to the workdir. Empty: none is made."""
    step_timeout_seconds: float = 1800.0


async def prepare_repository(
    env: Environment, instance: Instance, spec: Spec, source: Source, data_dir: Path
) -> None:
    """Raises environment.setup, with the step that failed and the last line it said."""
    if source.preparation == "git_clone":
        await _clone(env, instance, source, data_dir)
        await _install(env, instance, spec, source, data_dir)
    elif (await env.exec(["test", "-d", ".git"])).exit_code != 0:
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP,
            f"there is no repository in {env.workdir}: preparation prebaked needs the published "
            "image (--env docker, modal or daytona), or set benchmark-params.preparation=git_clone",
        )
    await scrub(env)
    await check_scrubbed(env, instance.base_commit)


def activation(source: Source) -> str:
    """Shell lines after which the instance's Python is the first one."""
    if not source.venv:
        return ""
    venv = source.venv if source.venv.startswith("/") else f"$PWD/{source.venv}"
    return f'export VIRTUAL_ENV="{venv}" PATH="{venv}/bin:$PATH"\n'


async def _clone(env: Environment, instance: Instance, source: Source, data_dir: Path) -> None:
    packed = await asyncio.to_thread(
        repository_pack,
        data_dir,
        source.url,
        instance.repo,
        instance.base_commit,
        source.history_depth,
    )
    await env.upload(packed, ".agentcompass-repository")
    script = NEUTRAL + _UNPACK
    done = await env.exec(
        ["sh", "-c", script, "sh", instance.base_commit],
        timeout_seconds=source.step_timeout_seconds,
    )
    _check(done, "unpacking the repository")


async def _install(
    env: Environment, instance: Instance, spec: Spec, source: Source, data_dir: Path
) -> None:
    if spec.language != "py" and spec.install:
        await _step(env, source, "the installation", *spec.before_install, *spec.install)
        return
    if source.venv:
        python = _python_command(spec, source)
        await _step(env, source, "making the virtual environment", python, activate=False)
    requirements = await _requirements(instance, spec, source, data_dir)
    if requirements:
        await env.write_file(".agentcompass-requirements.txt", requirements.encode())
        await _step(
            env,
            source,
            "installing its requirement files",
            "python -m pip install -q -r .agentcompass-requirements.txt",
            "rm .agentcompass-requirements.txt",
        )
    for packages in (spec.packages, spec.pip_packages):
        if packages:
            words = " ".join(map(shlex.quote, packages))
            await _step(env, source, "installing packages", f"python -m pip install -q {words}")
    if spec.before_install:
        await _step(env, source, "preparing the installation", *spec.before_install)
    if spec.install:
        await _step(env, source, "installing the repository", *spec.install)
    # Set-up steps that edit tracked files are part of the base, as in the published images.
    done = await env.exec(["sh", "-c", NEUTRAL + _COMMIT])
    _check(done, "recording the set-up")


async def _requirements(instance: Instance, spec: Spec, source: Source, data_dir: Path) -> str:
    """The first requirement file the repository has, with those it names, as one text."""
    if not spec.requirements:
        return ""
    commit = instance.environment_setup_commit or instance.base_commit

    def read() -> str:
        mirror = mirror_with(data_dir, source.url, instance.repo, commit)
        for path in spec.requirements:
            lines: list[str] = []
            pending, seen = [path], set()
            while pending:
                current = pending.pop(0)
                text = None if current in seen else file_at(mirror, commit, current)
                seen.add(current)
                if text is not None:
                    pending += requirement_paths(current, text)
                    lines += [line for line in text.splitlines() if _is_package(line)]
            if lines:
                return "\n".join(lines) + "\n"
        return ""

    return await asyncio.to_thread(read)


def _is_package(line: str) -> bool:
    line = line.strip()
    return bool(line) and not line.startswith(NO_REQUIREMENTS)


def _python_command(spec: Spec, source: Source) -> str:
    venv = shlex.quote(source.venv)
    version = spec.python or "3"
    if source.python:
        python = shlex.quote(source.python.replace("{version}", version))
        return f"{python} -m venv {venv}"
    return _FIND_PYTHON.replace("@VERSION@", version).replace("@VENV@", venv)


async def _step(
    env: Environment, source: Source, what: str, *lines: str, activate: bool = True
) -> None:
    script = "set -e\n" + (activation(source) if activate else "") + "\n".join(lines)
    done = await env.exec(
        script,
        env=PIP_VARIABLES,
        timeout_seconds=source.step_timeout_seconds,
        output_limit_kb=256,
    )
    _check(done, what)


def _check(done: ExecResult, what: str) -> None:
    if done.ok:
        return
    ended = "no end in time" if done.timed_out else f"exit {done.exit_code}"
    said = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    errors = [line for line in said if "error" in line.lower() and "subprocess" not in line]
    reason = "; ".join(dict.fromkeys([*errors[-3:], *said[-1:]]))[:600]
    full = "No space left on device" in done.stderr
    raise AgentCompassError(
        Code.ENVIRONMENT_DISK_FULL if full else Code.ENVIRONMENT_SETUP,
        f"{what} failed ({ended}): {reason}",
    )


_UNPACK = """\
from="$PWD/.agentcompass-repository"
git init -q --template= .
git symbolic-ref HEAD refs/heads/main
git config core.logAllRefUpdates false
git config user.name >/dev/null || git config user.name Agent
git config user.email >/dev/null || git config user.email agent@example.org
if [ -s "$from/shallow" ]; then cp "$from/shallow" .git/shallow; fi
git index-pack --stdin <"$from/repository.pack" >/dev/null
git update-ref refs/heads/main "$1"
while read -r commit name; do git update-ref "refs/tags/$name" "$commit"; done <"$from/tags"
rm -rf "$from"
git reset -q --hard "$1"
git config --unset core.logAllRefUpdates
"""

_COMMIT = """\
if ! git diff --quiet HEAD; then
  date=$(git show -s --format=%cI HEAD)
  GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date git -c user.name=Set-up \\
    -c user.email=setup@example.org commit -q -a --no-verify -m 'Set-up'
fi
"""

_FIND_PYTHON = """\
found=$(command -v python@VERSION@ || true)
if [ -z "$found" ]; then
  for candidate in /opt/python/@VERSION@/bin/python3 "$HOME"/.pyenv/versions/@VERSION@.*/bin/python3
  do if [ -x "$candidate" ]; then found=$candidate; fi; done
fi
if [ -z "$found" ] && python3 -c 'import sys; exit("%d.%d" % sys.version_info[:2] != "@VERSION@")'
then found=python3; fi
if [ -z "$found" ]; then
  echo "error: Python @VERSION@ is not in the sandbox: use an image that has it, put it there with \
env-params.setup.files (/opt/python/@VERSION@), or set benchmark-params.python" >&2
  exit 9
fi
"$found" -m venv @VENV@
"""
