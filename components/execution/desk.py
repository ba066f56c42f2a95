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
from agentcompass.components.contracts.protocols import ModelClient
from agentcompass.components.contracts.trajectory import Trajectory
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.store import RunStore

LONGEST_MESSAGE = 1_000
"""Characters of a failure's message; the attempt's log has all of it."""


class AttemptDesk:
    """Satisfies contracts.protocols.ArtifactDesk, and keeps the attempt's own records."""

    def __init__(
        self, store: RunStore, key: AttemptKey, checkpoint: Checkpoint | None = None
    ) -> None:
        """With a checkpoint the agent's stage is done, and what it noted and took stands."""
        self._store, self._key = store, key
        self._artifacts = store.artifacts(key)
        self.checkpoint = checkpoint
        self.model: ModelClient | None = None
        """The attempt's own, for what it has spent so far."""
        self.phase = Phase.SETUP
        self.notes: list[Note] = list(checkpoint.notes) if checkpoint else []
        self._seconds: dict[Phase, float] = {}

    def save(self, name: str, content: bytes, *, path: str = "", mode: int = 0o644) -> Artifact:
        return self._artifacts.save(name, content, path=path, mode=mode)

    def read(self, artifact: Artifact) -> bytes:
        return self._artifacts.read(artifact)

    def note(self, code: Code, message: str) -> None:
        self.notes.append(Note(code=code, phase=self.phase, message=message))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._store.save_checkpoint(checkpoint)
        self.checkpoint = checkpoint

    def save_trajectory(self, trajectory: Trajectory) -> None:
        self._store.save_trajectory(self._key, trajectory)

    @contextmanager
    def in_phase(self, phase: Phase, unexpected: Code) -> Iterator[None]:
        """Times what happens, and gives every failure a code and a line in the attempt's log.

        An exception without a code of its own gets `unexpected`. So does one with a code of the
        agent's work, which is graded all the same, where the agent does not work: a judge's own
        model may outgrow its context window.
        """
        self.phase, started = phase, time.monotonic()
        try:
            yield
        except AgentCompassError as error:
            self._log(f"{error.code}: {error}")
            code, message = error.code, str(error)
            if error.policy.graded and phase is not Phase.RUN:
                code, message = unexpected, f"{error.code}: {error}"
            # The message travels on, to Prefect and the console.
            raise AgentCompassError(code, shortened(self._store.masker.text(message))) from error
        except Exception as error:  # the edge of the attempt: whatever a component may raise
            self._log(traceback.format_exc())
            code = Code.ENVIRONMENT_DISK_FULL if _disk_full(error) else unexpected
            raise AgentCompassError(code, one_line(error, self._store.masker)) from error
        finally:
            spent = time.monotonic() - started
            self._seconds[phase] = self._seconds.get(phase, 0.0) + spent

    def spent(self) -> Usage:
        if self.checkpoint is not None:
            return self.checkpoint.usage
        return self.model.usage if self.model is not None else Usage()

    async def recall(self) -> Checkpoint:
        """The checkpoint of an earlier execution, as the outcome of this one."""
        assert self.checkpoint is not None
        return self.checkpoint

    def judged_times(self) -> PhaseTimes:
        """The checkpoint's times and the judging's."""
        assert self.checkpoint is not None
        judging = {"score_seconds": self._seconds.get(Phase.SCORE)}
        return self.checkpoint.times.model_copy(update=judging)

    def times(self, model: ModelClient) -> PhaseTimes:
        return PhaseTimes(
            setup_seconds=self._seconds.get(Phase.SETUP),
            run_seconds=self._seconds.get(Phase.RUN),
            collect_seconds=self._seconds.get(Phase.COLLECT),
            model_seconds=model.model_seconds,
            waiting_seconds=model.waiting_seconds,
        )

    def _log(self, text: str) -> None:
        self._store.append_attempt_log(self._key, f"[{self.phase}] {text.rstrip()}\n")


def one_line(error: BaseException, masker: Masker) -> str:
    """The error as one line of at most 500 characters. Masked before it is cut: half a secret
    would be found by no masker any more."""
    text = masker.text(f"{type(error).__name__}: {error}")
    return " ".join(text.split())[:500].rstrip(": ")


def shortened(message: str) -> str:
    """Its beginning, which says what failed, and its end, where programs say why."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    half = LONGEST_MESSAGE // 2
    return f"{message[:half].rstrip()} … {message[-half:].lstrip()}"


def _disk_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.ENOSPC
