"""Grading in a sandbox: make room, bring the tests, run test.sh, and take its reward.

Only what this grading wrote counts: the verdict's folder is made anew first, whatever stood
there (a folder, a file, something read-only, a link, which is never followed); afterwards the
reward must be a plain file of the grader's, unchanged since test.sh ended.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentcompass.components.benchmarks._harbor.box import FIXED, LOGS, TESTS, Box
from agentcompass.components.benchmarks._harbor.processes import LeftRunning, end_left_running
from agentcompass.components.benchmarks._harbor.rewards import REWARD_MAX_BYTES
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import CaptureLimits, Environment

LOG_LIMITS = CaptureLimits(max_files=200, max_bytes=32 * 1024 * 1024)
OUTPUT_LIMIT_KB = 512

_CLEAR = r"""
set -e
for path in /logs /logs/verifier $1; do
    if [ -L "$path" ] || { [ -e "$path" ] && [ ! -d "$path" ]; }; then rm -f -- "$path"; fi
done
rm -rf -- /logs/verifier $1
mkdir -p /logs
mkdir /logs/verifier $1
chmod 755 /logs /logs/verifier $1
"""
_ARRIVED = r"""
set -e
chown -R "$1" /tests /logs/verifier
chmod -R u+rwX,go+rX,go-w /tests
chmod +x /tests/test.sh
"""
_STATS = r"""
stats() {
    for path in /logs/verifier/reward.json /logs/verifier/reward.txt; do
        [ ! -e "$path" ] && [ ! -L "$path" ] || stat -c '%n|%F|%u|%h|%y|%i;' "$path"
    done | tr '\n' ' '
}
"""
_RUN = (
    _STATS
    + r"""
/tests/test.sh
code=$?
printf '\n%s %s\n' "$1" "$(stats)"
exit $code
"""
)
_LOOK = (
    _STATS
    + r"""
[ -d /logs/verifier ] && [ ! -L /logs/verifier ] && [ ! -L /logs ] || { echo gone; exit 0; }
stats
chmod -R u+rwX,go+rX /logs/verifier 2>/dev/null
exit 0
"""
)


@dataclass(frozen=True)
class Graded:
    files: Mapping[str, bytes]
    """What stands under /logs/verifier, by path in it; rewards only if they are sound."""
    output: str
    """Of test.sh, both streams."""
    exit_code: int | None
    findings: tuple[str, ...]
    """Why something of it does not count."""
    left_running: tuple[str, ...]
    ended: tuple[str, ...]


@dataclass(frozen=True)
class Grader:
    """How one task is graded."""

    tests: tuple[Path, ...]
    """Laid over each other in /tests."""
    user: str | None
    """Who runs test.sh."""
    root: str | None
    """Who makes room; None: commands run as root anyway."""
    keep: LeftRunning
    declared: frozenset[str]
    """Variables that the task itself sets."""
    written: frozenset[str] = frozenset()
    """Names of reward files that its tests speak of; empty: not known."""
    tests_are_there: bool = False
    """The image has brought them."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """For test.sh, over those of the phase."""
    goes_on: bool = False
    """Another step follows: what the agent keeps running stays."""


async def run_tests(
    grader: Grader, env: Environment, box: Box, path: str | None, *, alone: bool
) -> Graded:
    """`path`: PATH, if it must differ. `alone`: no agent ever ran here, nothing is ended.

    Raises grader.crashed when the sandbox does not let the tests be run. Time is the caller's.
    """
    ended, running = (
        ([], []) if alone else await end_left_running(env, box, grader.keep, grader.root)
    )
    await _as_root(
        grader, env, _CLEAR, "making room for the tests", "" if grader.tests_are_there else TESTS
    )
    if not grader.tests_are_there:
        for folder in grader.tests:
            await env.upload(folder, TESTS)
    await _as_root(grader, env, _ARRIVED, "bringing the tests", str(box.uid))
    mark = secrets.token_hex(16)
    result = await env.exec(
        ["/bin/sh", "-c", _RUN, "sh", mark],
        env=_variables(grader, box, path),
        user=grader.user,
        output_limit_kb=OUTPUT_LIMIT_KB,
        merge_stderr=True,
    )
    if not alone:
        # Also what the tests started: a program of the agent's may outlive them to write after.
        after = grader.keep if grader.goes_on or grader.keep == "everything" else "nothing"
        await end_left_running(env, box, after, grader.root)
    output, at_end = _split(result.stdout, mark)
    looked = await _as_root(grader, env, _LOOK, "reading the reward")
    findings = _unsound(at_end, looked, box) | _unexpected(grader, looked)
    if looked.startswith("gone"):
        return Graded({}, output, result.exit_code, ("/logs/verifier was replaced",), (), ())
    capture = await env.capture(LOGS, LOG_LIMITS)
    files = {
        file.path: file.content for file in capture.files if not file.path.startswith("reward.")
    }
    for name in _stats(looked):
        if name not in findings:  # each by itself: others cannot push it over a limit
            files[name.removeprefix(f"{LOGS}/")] = await _reward(env, name)
    return Graded(
        files=files,
        output=output,
        exit_code=result.exit_code,
        findings=tuple(f"{name}: {why}" for name, why in findings.items()),
        left_running=tuple(running),
        ended=tuple(ended),
    )


async def clear(grader: Grader, env: Environment) -> None:
    """Leave nothing of the grading for the agent's next step."""
    await _as_root(grader, env, _CLEAR, "clearing the tests", TESTS)


def _variables(grader: Grader, box: Box, path: str | None) -> dict[str, str]:
    given = box.variables | grader.declared
    values = {name: value for name, value in FIXED.items() if name not in given}
    values |= grader.variables
    values["HOME"] = box.home
    if path is not None:
        values["PATH"] = path
    return values


def _split(output: str, mark: str) -> tuple[str, str]:
    """test.sh's own output, and the line on the reward files at its end."""
    before, _, after = output.rpartition(f"\n{mark} ")
    return (before, after.strip()) if before or after != output else (output, "")


def _unsound(at_end: str, now: str, box: Box) -> dict[str, str]:
    """Reward files that do not count → why."""
    found, first = {}, _stats(at_end)
    for name, (kind, owner, links, changed, inode) in _stats(now).items():
        if "regular" not in kind:
            found[name] = f"is a {kind}"
        elif owner not in (str(box.uid), "0"):
            found[name] = f"belongs to user {owner}, not to the verifier"
        elif links != "1":
            found[name] = "is a file that has another name too"
        elif name not in first or first[name][3:] != (changed, inode):
            found[name] = "was written after the tests had ended"
    return found


def _unexpected(grader: Grader, now: str) -> dict[str, str]:
    """A reward file that the task's tests never speak of, beside one that they do: a program of
    the agent's that they started wrote it."""
    there = {name: name.rpartition("/")[2] for name in _stats(now)}
    return {
        path: "is no file that the tests write"
        for path, name in there.items()
        if grader.written and name not in grader.written
    }


async def _reward(env: Environment, path: str) -> bytes:
    try:
        return await env.read_file(path, max_bytes=REWARD_MAX_BYTES)
    except ValueError:
        raise AgentCompassError(
            Code.GRADER_INVALID_REWARD, f"{path} has more than {REWARD_MAX_BYTES} bytes"
        ) from None
    except OSError as error:
        raise AgentCompassError(Code.GRADER_CRASHED, f"{path} cannot be read: {error}") from error


def _stats(line: str) -> dict[str, tuple[str, str, str, str, str]]:
    rows = re.findall(r"(/logs/verifier/reward\.\w+)\|([^|]*)\|(\d+)\|(\d+)\|([^|]*)\|(\d+);", line)
    return {row[0]: (row[1], row[2], row[3], row[4], row[5]) for row in rows}


async def _as_root(grader: Grader, env: Environment, script: str, what: str, *args: str) -> str:
    done = await env.exec(["/bin/sh", "-c", script, "sh", *args], cwd="/", user=grader.root)
    if not done.ok:
        last = (done.stderr.strip() or "no output").splitlines()[-1]
        raise AgentCompassError(Code.GRADER_CRASHED, f"{what} failed: {last[:300]}")
    return done.stdout
