"""What is to be tried: one physical attempt at one task."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.contracts.task import Sample, Task
from agentcompass.components.execution.deadlines import lifetime_seconds


@dataclass(frozen=True)
class Job:
    run_id: str
    key: AttemptKey
    sample: Sample
    """Evaluator side; the agent's stage hands out `task` only."""
    settings: ExecutionSettings
    fingerprint: str = ""
    """Short name for all that the result depends on, the task's content included."""

    def stage_key(self, stage: str) -> str:
        """Names one stage of this attempt, and nothing else, in every run and process."""
        task = hashlib.sha256(self.key.task_id.encode()).hexdigest()[:16]
        return f"{self.fingerprint}-{task}-{self.key.index}-{self.key.physical}-{stage}"

    @property
    def task(self) -> Task:
        return self.sample.task

    def label(self, purpose: str, tasks: Sequence[Task]) -> SandboxLabel:
        """`tasks`: what is done in that sandbox."""
        return SandboxLabel(
            run_id=self.run_id,
            attempt=self.key,
            purpose=purpose,
            keep=self.settings.keep_environment,
            lifetime_seconds=lifetime_seconds(self.settings, tasks),
        )
