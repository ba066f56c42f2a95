"""Grading one round: in the sandbox the agent worked in, or in one of its own."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agentcompass.components.benchmarks._harbor.bootstrap import misses
from agentcompass.components.benchmarks._harbor.box import Box, record, with_changes
from agentcompass.components.benchmarks._harbor.judging import Grade, Terms, grade_of, worthless
from agentcompass.components.benchmarks._harbor.processes import LeftRunning
from agentcompass.components.benchmarks._harbor.rounds import Round
from agentcompass.components.benchmarks._harbor.samples import variables
from agentcompass.components.benchmarks._harbor.tampering import (
    Named,
    Tampering,
    give_back,
    originals,
    untangle,
)
from agentcompass.components.benchmarks._harbor.verifier import Graded, Grader, clear, run_tests
from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.sandbox import Environment


@dataclass
class Seen:
    """A sandbox before the agent came, as each of its graders' users sees it."""

    root: str | None
    """Who may do everything in it; None: whoever commands run as anyway."""
    boxes: dict[str | None, Box] = field(default_factory=dict)
    originals: dict[str, bytes] = field(default_factory=dict)


async def look_over(env: Environment, root: str | None, users: Iterable[str | None]) -> Seen:
    """Raises environment.setup."""
    seen = Seen(root)
    for user in users:
        box = seen.boxes[user] = await record(env, user, root)
        seen.originals |= await originals(env, box)
    return seen


async def take_over(
    env: Environment, seen: Seen, before: Seen, after: Seen, brought: frozenset[str] | None
) -> None:
    """What the task itself changed between two looks is not the agent's (see with_changes)."""
    for user, box in seen.boxes.items():
        grown = seen.boxes[user] = with_changes(box, before.boxes[user], after.boxes[user], brought)
        new = {path: sha for path, sha in grown.files.items() if sha != box.files.get(path)}
        seen.originals |= await originals(env, replace(grown, files=new))


def verifier_user(one: Round, root: str | None) -> str | None:
    """The task's word; else the image's own user, unless the agent has another there."""
    agents = one.folder.config.agent.user if one.separate is None else None
    return one.verifier.user or (root if agents else None)


async def grade_separately(
    one: Round, env: Environment, seen: Seen, terms: Terms, desk: ArtifactDesk
) -> Grade:
    """In a sandbox where no agent ever was: all there is of it are its outputs."""
    grader = _grader(one, "everything", seen.root)
    tampering = await _untangled(one, env, seen, grader, desk)
    if tampering.replaced:
        return worthless(tampering, terms)
    graded = await run_tests(grader, env, seen.boxes[grader.user], tampering.path, alone=True)
    return await _grade(one, env, graded, tampering, terms, desk)


async def grade_in_place(
    one: Round, env: Environment, seen: Seen, keep: LeftRunning, terms: Terms, desk: ArtifactDesk
) -> tuple[Grade, bool]:
    """In the agent's sandbox; False: nothing it says counts any more, later steps included."""
    grader = _grader(one, keep, seen.root)
    tampering = await _untangled(one, env, seen, grader, desk)
    if tampering.replaced:
        return worthless(tampering, terms), False
    graded = await run_tests(grader, env, seen.boxes[grader.user], tampering.path, alone=False)
    for line in graded.findings:
        desk.note(Code.GRADER_TAMPERED, line)
    if grader.goes_on:
        await clear(grader, env)
        await give_back(env, tampering, seen.root)
    return await _grade(one, env, graded, tampering, terms, desk), True


async def _untangled(
    one: Round, env: Environment, seen: Seen, grader: Grader, desk: ArtifactDesk
) -> Tampering:
    sources = (entry.source for entry in one.artifacts)
    texts = await asyncio.to_thread(one.test_texts)
    named = Named(
        told="\n".join((one.folder.instruction, *sources)),
        tests=b"\n".join(texts).decode("utf-8", "replace"),
    )
    box = seen.boxes[grader.user]
    found = await untangle(env, box, seen.originals, named, grader.user, seen.root)
    for line in (*found.findings, *found.replaced):
        desk.note(Code.GRADER_TAMPERED, line)
    return found


async def _grade(
    one: Round,
    env: Environment,
    graded: Graded,
    tampering: Tampering,
    terms: Terms,
    desk: ArtifactDesk,
) -> Grade:
    grade = grade_of(
        graded,
        tampering,
        await _script(one),
        terms,
        any_key=one.number > 0,
        workdir=env.workdir,
    )
    for name, path in tampering.gone.items():
        if misses(graded.output, (name,)):
            desk.note(Code.GRADER_TAMPERED, f"{path} was removed, and the verifier missed it")
    aside = tampering.of_the_work(env.workdir)
    if aside and grade.rewards.get(terms.key, 0.0) < terms.score_range[1]:
        what = ", ".join(aside)[:300]
        desk.note(
            Code.GRADER_TAMPERED,
            f"graded without {what}: if the work needs it, the reward is too low",
        )
    return grade


def _grader(one: Round, keep: LeftRunning, root: str | None) -> Grader:
    config, own = one.folder.config, one.step.verifier.env if one.step else {}
    return Grader(
        tests=one.tests,
        user=verifier_user(one, root),
        root=root,
        keep=keep,
        declared=frozenset((*one.verifier.env, *_environment_variables(one))),
        written=one.reward_files,
        tests_are_there=one.separate is not None and one.separate.brings_tests,
        variables=resolved(variables(own), os.environ, f"{one.id}: verifier.env"),
        goes_on=one.number > 0 and one.number < len(config.steps),
    )


def _environment_variables(one: Round) -> Mapping[str, str]:
    place = one.separate
    return place.environment.env if place is not None else one.folder.config.environment.env


async def _script(one: Round) -> str:
    script = one.test_script
    if script is None:
        return ""
    return await asyncio.to_thread(script.read_text, "utf-8", "replace")
