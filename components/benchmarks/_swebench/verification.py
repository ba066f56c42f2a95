"""Judge a patch in a fresh sandbox: prepare, apply, put the tests in place, run, compare."""

from collections.abc import Sequence
from functools import partial

from agentcompass.components.benchmarks._judge import printable
from agentcompass.components.benchmarks._swebench import protected
from agentcompass.components.benchmarks._swebench.grading import grade
from agentcompass.components.benchmarks._swebench.installed import Installed
from agentcompass.components.benchmarks._swebench.logs import with_parsed_output
from agentcompass.components.benchmarks._swebench.preparation import Source, activation
from agentcompass.components.benchmarks._swebench.reinstall import Reinstall
from agentcompass.components.benchmarks._swebench.rows import Instance
from agentcompass.components.benchmarks._swebench.snapshot import apply_patch, literal
from agentcompass.components.benchmarks._swebench.specs import Spec, test_files
from agentcompass.components.benchmarks._swebench.test_run import (
    Account,
    probe_command,
    run_tests,
    watching,
)
from agentcompass.components.contracts.attempt import Evidence, Note, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
from agentcompass.components.contracts.sandbox import Environment

PROBE_SECONDS = 180.0
OUTPUT_CHARACTERS = 4000
CONFIGURATION_LIMIT_BYTES = 4 * 1024 * 1024


async def judge_patch(
    env: Environment,
    instance: Instance,
    spec: Spec,
    source: Source,
    patch: bytes,
    timeout_seconds: float,
) -> Verdict:
    """The sandbox is prepared, and the submission has not run in it yet.

    Enters the phase of evaluation. Raises grader.crashed when the tests cannot run even without
    the submission, grader.timeout when they outlast their time because the machine is too busy.
    """
    reinstall = Reinstall(env, spec, source) if spec.install_again else None
    if reinstall:
        await reinstall.fetch_tools()
    await env.enter("evaluation")
    before = "".join(f"{line}\n" for line in (activation(source).rstrip(), *spec.before_tests))
    await _check_tools(env, spec, before)
    await _check_test_patch(env, instance)

    paths = protected.changed_paths(patch)
    parts = protected.sort_paths(
        paths,
        repo=instance.repo,
        tests=test_files(instance.test_patch),
        accepted=test_files(instance.patch),
    )
    steering = [*parts.steering, *await _steering_configuration(env, instance, paths, patch)]
    left_out = (*parts.tests, *steering)
    notes = [_tampered(f"{path} would steer the test run; it was left out") for path in steering]
    without = tuple(map(literal, left_out))
    problem = await apply_patch(env, patch, without=without)
    if problem:
        return _refused("patch", f"the patch does not apply: {problem}", notes)
    tests = instance.test_patch.encode("utf-8", "surrogateescape")
    problem = await apply_patch(env, tests, neutral=False)
    if problem:
        return _refused("patch", f"the tests do not fit in with the patch: {problem}", notes)

    evidence = []
    if parts.tests:
        text = "the patch changes them; the instance's own were used: " + ", ".join(parts.tests)
        evidence.append(Evidence(name="tests", text=text[:1000]))
    if reinstall:
        own = test_files(instance.test_patch)
        installed = await Installed.look(env, activation(source), own)
        problem = await reinstall.install()
        if changes := await installed.changes(env):
            notes += [_tampered(change) for change in changes]
            evidence += [Evidence(name="install", passed=False, text=text) for text in changes]
            return Verdict(correct=False, evidence=tuple(evidence), notes=tuple(notes))
        if problem:
            await reinstall.blame(
                partial(_swap, env, patch, tests, without, reverse=True),
                partial(_swap, env, patch, tests, without),
            )
            text = f"installing the patched repository failed ({problem})"
            evidence.append(Evidence(name="install", passed=False, text=text))

    account = await run_tests(
        env, spec.test_commands, before=before, timeout_seconds=timeout_seconds
    )
    if account.timed_out:
        text = f"the tests did not end within {timeout_seconds:g} s"
        if account.starved:
            text += " of their own, the machine is too busy: run fewer attempts at once"
            raise AgentCompassError(Code.GRADER_TIMEOUT, text)
        evidence.append(Evidence(name="test run", passed=False, text=text))
    if watching(spec.test_commands[-1]) == "log":
        if account.exit_code in (126, 127):
            last = account.output.strip().rpartition("\n")[2][:300]
            raise AgentCompassError(Code.GRADER_CRASHED, f"the tests cannot be run: {last}")
        account = await with_parsed_output(account, instance)
    result = grade(instance, account)
    notes += [_tampered(reason) for reason in result.tampering]
    return Verdict(
        correct=result.correct,
        evidence=(*evidence, *result.evidence, *_output(account, result.correct)),
        metrics=result.metrics,
        notes=tuple(notes),
    )


async def _check_tools(env: Environment, spec: Spec, before: str) -> None:
    """The runner starts, before anything of the submission is here."""
    command = spec.test_commands[-1]
    if watching(command) == "log":
        return
    account = await run_tests(
        env, (probe_command(command),), before=before, timeout_seconds=PROBE_SECONDS
    )
    if not account.started:
        last = account.output.strip().rpartition("\n")[2][:300]
        raise AgentCompassError(
            Code.GRADER_SETUP,
            f"the test runner does not start in the prepared sandbox "
            f"(exit {account.exit_code}): {last}",
        )


async def _check_test_patch(env: Environment, instance: Instance) -> None:
    words = ["git", "-c", "safe.directory=*", "apply", "--check", "--whitespace=nowarn", "-"]
    patch = instance.test_patch.encode("utf-8", "surrogateescape")
    done = await env.exec(words, stdin=patch)
    if not done.ok:
        reason = done.stderr.strip().partition("\n")[0][:300]
        raise AgentCompassError(
            Code.GRADER_CRASHED, f"the instance's tests do not apply to its base: {reason}"
        )


async def _steering_configuration(
    env: Environment, instance: Instance, paths: Sequence[str], patch: bytes
) -> list[str]:
    """Configuration files of the repository whose part for test runners the patch changes."""
    accepted = test_files(instance.patch)
    names = [p for p in protected.CONFIGURATION if p in paths and p not in accepted]
    found = []
    for name in names:
        before = await _settings(env, name)
        # Tried out in the working tree, and taken back before anything else happens.
        if await apply_patch(env, patch, only=(literal(name),)):
            continue
        after = await _settings(env, name)
        await _take_back(env, patch, name)
        if before != after:
            found.append(name)
    return found


async def _swap(
    env: Environment, patch: bytes, tests: bytes, without: tuple[str, ...], *, reverse: bool = False
) -> str:
    """Take submission and tests out of the working tree, or put them back."""
    parts = [
        partial(apply_patch, env, patch, without=without, reverse=reverse),
        partial(apply_patch, env, tests, neutral=False, reverse=reverse),
    ]
    for part in reversed(parts) if reverse else parts:
        if problem := await part():
            return problem
    return ""


async def _take_back(env: Environment, patch: bytes, name: str) -> None:
    words = ["git", "-c", "safe.directory=*", "apply", "-R", "--whitespace=nowarn"]
    done = await env.exec([*words, f"--include={literal(name)}", "-"], stdin=patch)
    if not done.ok:
        raise AgentCompassError(Code.GRADER_CRASHED, f"{name} cannot be restored")


async def _settings(env: Environment, name: str) -> object:
    try:
        content = await env.read_file(name, max_bytes=CONFIGURATION_LIMIT_BYTES)
    except (OSError, ValueError):
        return None
    return protected.runner_settings(name, content)


def _output(account: Account, correct: bool) -> list[Evidence]:
    """The end of what the runner printed, for people who ask why."""
    text = account.output.strip()
    if correct or not text:
        return []
    return [Evidence(name="output", text=printable(text[-OUTPUT_CHARACTERS:]))]


def _refused(name: str, text: str, notes: list[Note]) -> Verdict:
    evidence = (Evidence(name=name, passed=False, text=text),)
    return Verdict(correct=False, evidence=evidence, notes=tuple(notes))


def _tampered(message: str) -> Note:
    return Note(code=Code.GRADER_TAMPERED, phase=Phase.SCORE, message=message)
