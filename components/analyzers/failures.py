"""Why attempts failed: by owner and code, with messages that stand for many."""

from collections import defaultdict

from agentcompass.components.contracts.attempt import AttemptKey, Note
from agentcompass.components.contracts.errors import POLICIES, Code, Owner
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.protocols import AnalysisInput, Component, Report


class FailuresParameters(Frozen):
    examples: int = 3
    """How many attempts are named for each code."""


class Failures:
    def __init__(self, parameters: FailuresParameters) -> None:
        self._examples = parameters.examples

    def analyze(self, run: AnalysisInput) -> Report:
        """Findings: {code: {owner, severity, attempts, messages: [[attempt, message], …]}}."""
        found: dict[Code, list[tuple[AttemptKey, Note]]] = defaultdict(list)
        attempts = 0
        for detail in run.details():
            for record in detail.attempts:
                attempts += record.status != "skipped"
                failure = [record.failure] if record.failure else []
                notes = {note.code: note for note in [*record.notes, *failure]}
                for code, note in notes.items():
                    found[code].append((record.key, note))
        ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
        return Report(
            findings={
                code: {
                    "owner": POLICIES[code].owner,
                    "severity": POLICIES[code].severity,
                    "attempts": len(notes),
                    "messages": [[str(k), n.message] for k, n in notes[: self._examples]],
                }
                for code, notes in ordered
            },
            markdown=self._markdown(ordered, attempts),
        )

    def _markdown(
        self, ordered: list[tuple[Code, list[tuple[AttemptKey, Note]]]], attempts: int
    ) -> str:
        if not ordered:
            return (
                f"None of {attempts} attempts met a failure or a warning. A wrong answer is "
                "neither: its evidence stands in the task's detail.json.\n"
            )
        lines = [f"Of {attempts} attempts:", ""]
        for owner in Owner:
            for code, notes in ordered:
                policy = POLICIES[code]
                if policy.owner is not owner:
                    continue
                counts = "counts" if policy.graded else "has no score"
                lines.append(
                    f"- **{len(notes)} × `{code}`** ({owner}; the attempt {counts}): "
                    f"{policy.meaning}."
                )
                lines += [f"  - {key}: {note.message}" for key, note in notes[: self._examples]]
        return "\n".join(lines) + "\n"


COMPONENT = Component(version="1", create=Failures, parameters=FailuresParameters)
