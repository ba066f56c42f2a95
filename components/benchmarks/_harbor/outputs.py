"""What the agent leaves besides the sandbox itself: declared artifacts, and /logs/artifacts.

Kept as `outputs/<path in the sandbox>`, a step's under `steps/<number>/`; in a separate grading
sandbox each is put back at the same path.
"""

import asyncio
import fnmatch
import posixpath
from pathlib import PurePosixPath

from agentcompass.components.benchmarks._harbor.rounds import Round
from agentcompass.components.benchmarks._harbor.task_config import ArtifactEntry
from agentcompass.components.contracts.attempt import Artifact, Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.sandbox import CapturedFile, CaptureLimits, Environment

GRADERS = ("/tests/", "/logs/verifier/")
"""Nothing of the agent's is put there."""
PUBLISHED = "/logs/artifacts"
"""By convention whatever stands here is an output."""
LIMITS = CaptureLimits(max_files=2_000, max_bytes=256 * 1024 * 1024)


async def collect_outputs(
    one: Round, env: Environment, submission: Submission, desk: ArtifactDesk
) -> Submission:
    """Run the collect commands, then take what is declared. A missing path is noted by nobody:
    the verifier decides what it means."""
    for hook in one.collect:
        done = await env.exec(hook.command, user=hook.user, timeout_seconds=hook.timeout_sec)
        if not done.ok:
            how = "took too long" if done.timed_out else f"ended with {done.exit_code}"
            desk.note(Code.ARTIFACT_LIMIT, f"collect command {hook.command[:200]!r} {how}")
    taken: dict[str, CapturedFile] = {}
    for entry in (ArtifactEntry(source=PUBLISHED), *one.artifacts):
        source = str(PurePosixPath(env.workdir, entry.source))
        for path, file in await _take(env, source, entry.exclude, desk):
            taken.setdefault(path, file)
    artifacts = await asyncio.to_thread(_save, taken, one.outputs, desk)
    return submission.model_copy(update={"artifacts": submission.artifacts + artifacts})


async def restore_outputs(
    one: Round, env: Environment, submission: Submission, desk: ArtifactDesk
) -> None:
    for artifact in submission.artifacts:
        if not artifact.name.startswith(one.outputs):
            continue
        if posixpath.normpath(artifact.path).startswith(GRADERS):
            desk.note(Code.ARTIFACT_LIMIT, f"{artifact.path}: is the grader's place, left out")
        else:
            await env.write_file(artifact.path, desk.read(artifact), mode=artifact.mode)


_KIND = """
if [ -L "$1" ]; then echo link
elif [ -d "$1" ]; then echo folder
elif [ -f "$1" ]; then stat -c %a -- "$1"
fi
"""


async def _take(
    env: Environment, source: str, exclude: tuple[str, ...], desk: ArtifactDesk
) -> list[tuple[str, CapturedFile]]:
    """(absolute path, file) of everything under `source`, itself included."""
    kind = await env.exec(
        ["/bin/sh", "-c", _KIND, "sh", source],
        cwd="/",
    )
    word = kind.stdout.strip()
    if word == "link":
        desk.note(Code.ARTIFACT_LIMIT, f"{source}: a link, not followed")
        return []
    if word == "folder":
        capture = await env.capture(source, LIMITS)
        for line in capture.left_out:
            desk.note(Code.ARTIFACT_LIMIT, f"{source}/{line}")
        return [
            (f"{source.rstrip('/')}/{file.path}", file)
            for file in capture.files
            if not _excluded(file.path, exclude)
        ]
    if not word:
        return []
    try:
        content = await env.read_file(source, max_bytes=LIMITS.max_bytes)
    except ValueError:
        desk.note(Code.ARTIFACT_LIMIT, f"{source}: over {LIMITS.max_bytes} bytes")
        return []
    except OSError as error:
        raise AgentCompassError(Code.ARTIFACT_FAILED, f"{source}: {error}") from error
    mode = int(word, 8) if word.isdigit() else 0o644
    return [(source, CapturedFile(path=PurePosixPath(source).name, content=content, mode=mode))]


def _excluded(path: str, patterns: tuple[str, ...]) -> bool:
    """As tar's --exclude: a pattern matches a whole path or any part of it."""
    parts = PurePosixPath(path).parts
    wholes = [
        "/".join(parts[start:end])
        for start in range(len(parts))
        for end in range(start + 1, len(parts) + 1)
    ]
    return any(
        fnmatch.fnmatchcase(whole, pattern.strip("/")) for whole in wholes for pattern in patterns
    )


def _save(taken: dict[str, CapturedFile], outputs: str, desk: ArtifactDesk) -> tuple[Artifact, ...]:
    # Names that are no UTF-8 cannot be written back at their place; captures escape them.
    return tuple(
        desk.save(f"{outputs}{path.lstrip('/')}", file.content, path=path, mode=file.mode & 0o777)
        for path, file in sorted(taken.items())
    )
