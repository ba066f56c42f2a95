"""What is to be tried: one physical attempt at one task."""

from dataclasses import dataclass

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.contracts.task import Sample, Task


@dataclass(frozen=True)
class Job:
    run_id: str
    key: AttemptKey
    sample: Sample
    """Evaluator side; the agent's stage hands out `task` only."""
    settings: ExecutionSettings

    @property
    def task(self) -> Task:
        return self.sample.task

    def label(self, purpose: str = "run") -> SandboxLabel:
        return SandboxLabel(run_id=self.run_id, attempt=self.key, purpose=purpose)
