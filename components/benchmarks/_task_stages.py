"""What happens to a task written by hand: prepare its workdir, capture the work, put it back.

kind        captured as artifacts                    graded on
answer      answer.txt, if the answer is not marked  the answer's text
files       every file of the workdir                exactly those files
repository  the patch against the prepared base      the base with the patch
"""

import asyncio
import contextlib
import fnmatch
from collections.abc import Sequence
from pathlib import PurePosixPath

from agentcompass.components.benchmarks._git_repository import (
    Commit,
    apply_patch,
    make_repository,
    take_patch,
)
from agentcompass.components.benchmarks._judge import printable
from agentcompass.components.benchmarks._patch import DROPPINGS
from agentcompass.components.benchmarks._task_file import TaskFile
from agentcompass.components.benchmarks._text_answer import marked_answer
from agentcompass.components.contracts.attempt import Artifact, Submission
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.sandbox import CapturedFile, CaptureLimits, Environment

CAPTURE = CaptureLimits(max_files=500, max_bytes=16 * 1024 * 1024)
ANSWER_FILE = "answer.txt"
ANSWER_FILE_MAX_BYTES = 64 * 1024
PATCH = "patch.diff"
WORKDIR = "workdir/"
"""Artifacts of kind `files` are named by their path under this."""


async def prepare(file: TaskFile, env: Environment) -> None:
    """Put the task's files in place. Raises environment.setup (no git, …)."""
    if file.kind == "repository":
        await make_repository(env, _commits(file))
        return
    for path, item in file.files.items():
        await env.write_file(path, item.content, mode=item.mode)


async def collect(
    file: TaskFile, env: Environment, submission: Submission, desk: ArtifactDesk
) -> Submission:
    """The submission completed with what stands in the workdir."""
    if file.kind == "answer":
        return await _with_answer_file(env, submission)
    save = _save_patch if file.kind == "repository" else _save_workdir
    artifacts = await save(file, env, desk)
    return submission.model_copy(update={"artifacts": submission.artifacts + artifacts})


async def restore(
    file: TaskFile, env: Environment, submission: Submission, desk: ArtifactDesk
) -> None:
    """Make the workdir in an empty sandbox what it was when the agent ended."""
    if file.kind == "repository":
        await prepare(file, env)
        for artifact in _of(submission, PATCH):
            await apply_patch(env, desk.read(artifact))
        return
    for artifact in _of(submission, WORKDIR):
        if _inside(artifact.path):
            await env.write_file(artifact.path, desk.read(artifact), mode=artifact.mode)


def unchanged(file: TaskFile, submission: Submission, desk: ArtifactDesk) -> bool:
    """The agent left the workdir as it found it."""
    if file.kind == "repository":
        return not any(artifact.size_bytes for artifact in _of(submission, PATCH))
    left = {a.path: (desk.read(a), bool(a.mode & 0o100)) for a in _of(submission, WORKDIR)}
    return left == {p: (f.content, bool(f.mode & 0o100)) for p, f in file.files.items()}


async def _with_answer_file(env: Environment, submission: Submission) -> Submission:
    """The file counts unless the message itself says `ANSWER:`; "It is in answer.txt" does not."""
    if marked_answer(submission.answer or ""):
        return submission
    with contextlib.suppress(OSError, ValueError):
        content = await env.read_file(ANSWER_FILE, max_bytes=ANSWER_FILE_MAX_BYTES)
        if answer := printable(content.decode("utf-8-sig", "replace")).strip():
            return submission.model_copy(update={"answer": answer})
    return submission


async def _left_nothing(env: Environment, desk: ArtifactDesk) -> bool:
    """The agent removed its own working directory: its doing, and an empty submission."""
    there = await env.exec(["test", "-d", env.workdir], cwd="/")
    if there.exit_code != 1:
        return False
    desk.note(Code.SUBMISSION_EMPTY, "the working directory is gone")
    return True


async def _save_patch(file: TaskFile, env: Environment, desk: ArtifactDesk) -> tuple[Artifact, ...]:
    if await _left_nothing(env, desk):
        return ()
    patch = await take_patch(env, _commits(file))
    for line in patch.left_out:
        desk.note(Code.ARTIFACT_LIMIT, printable(line))
    return (await asyncio.to_thread(desk.save, PATCH, patch.content),)


async def _save_workdir(
    file: TaskFile, env: Environment, desk: ArtifactDesk
) -> tuple[Artifact, ...]:
    if await _left_nothing(env, desk):
        return ()
    capture = await env.capture(".", CAPTURE)
    for line in capture.left_out:
        if not _dropping(line.partition(":")[0]):
            desk.note(Code.ARTIFACT_LIMIT, printable(line))
    kept = []
    for item in sorted(capture.files, key=lambda item: item.path):
        if _dropping(item.path):
            continue
        if printable(item.path) != item.path:
            desk.note(Code.ARTIFACT_LIMIT, f"{printable(item.path)}: its name is not UTF-8")
            continue
        kept.append(item)
    # Each file is synced to disk: hundreds of them on the event loop would hold up every attempt.
    return await asyncio.to_thread(_save_all, kept, desk)


def _save_all(files: Sequence[CapturedFile], desk: ArtifactDesk) -> tuple[Artifact, ...]:
    return tuple(
        desk.save(f"{WORKDIR}{file.path}", file.content, path=file.path, mode=file.mode)
        for file in files
    )


def _of(submission: Submission, name: str) -> list[Artifact]:
    """The artifacts of that name, or, for a name that ends in a slash, under it."""
    return [
        artifact
        for artifact in submission.artifacts
        if artifact.name == name or (name.endswith("/") and artifact.name.startswith(name))
    ]


def _dropping(path: str) -> bool:
    """Left by interpreters, git or an agent program; not part of the work."""
    return any(
        fnmatch.fnmatchcase(part, pattern.rstrip("/"))
        for part in PurePosixPath(path).parts
        for pattern in (".git", *DROPPINGS)
    )


def _inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and ".." not in parts and not path.startswith("/")


def _commits(file: TaskFile) -> list[Commit]:
    return [part.commit() for part in file.commits]
