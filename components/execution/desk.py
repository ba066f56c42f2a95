"""Where one physical attempt puts what must last: artifacts, records, notes, phase times."""

import errno
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from agentcompass.components.contracts.attempt import (
    Artifact,
    AttemptKey,
    Checkpoint,
    Note,
    PhaseTimes,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
from agentcompass.components.contracts.trajectory import Trajectory
from agentcompass.components.results.store import RunStore


class AttemptDesk:
    """Satisfies contracts.protocols.ArtifactDesk, and keeps the attempt's own records."""

    def __init__(self, store: RunStore, key: AttemptKey) -> None:
        self._store, self._key = store, key
        self._artifacts = store.artifacts(key)
        self._seconds: dict[Phase, float] = {}
        self.phase = Phase.SETUP
        self.notes: list[Note] = []

    def save(self, name: str, content: bytes, *, path: str = "", mode: int = 0o644) -> Artifact:
        return self._artifacts.save(name, content, path=path, mode=mode)

    def read(self, artifact: Artifact) -> bytes:
        return self._artifacts.read(artifact)

    def note(self, code: Code, message: str) -> None:
        self.notes.append(Note(code=code, phase=self.phase, message=message))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._store.save_checkpoint(checkpoint)

    def save_trajectory(self, trajectory: Trajectory) -> None:
        self._store.save_trajectory(self._key, trajectory)

    @contextmanager
    def in_phase(self, phase: Phase, unexpected: Code) -> Iterator[None]:
        """Times what happens, and gives every failure a code and a line in the attempt's log.

        An exception without a code of its own gets `unexpected`.
        """
        self.phase, started = phase, time.monotonic()
        try:
            yield
        except AgentCompassError as error:
            self._log(f"{error.code}: {error}")
            raise
        except Exception as error:  # the edge of the attempt: whatever a component may raise
            self._log(traceback.format_exc())
            code = Code.ENVIRONMENT_DISK_FULL if _disk_full(error) else unexpected
            raise AgentCompassError(code, one_line(error)) from error
        finally:
            spent = time.monotonic() - started
            self._seconds[phase] = self._seconds.get(phase, 0.0) + spent

    def times(self, model_seconds: float | None, waiting_seconds: float) -> PhaseTimes:
        return PhaseTimes(
            setup_seconds=self._seconds.get(Phase.SETUP),
            run_seconds=self._seconds.get(Phase.RUN),
            collect_seconds=self._seconds.get(Phase.COLLECT),
            score_seconds=self._seconds.get(Phase.SCORE),
            model_seconds=model_seconds,
            waiting_seconds=waiting_seconds,
        )

    def _log(self, text: str) -> None:
        self._store.append_attempt_log(self._key, f"[{self.phase}] {text.rstrip()}\n")


def one_line(error: BaseException) -> str:
    """The error as one line of at most 500 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500].rstrip(": ")


def _disk_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.ENOSPC
