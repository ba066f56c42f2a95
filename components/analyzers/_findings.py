"""What an analyzer found, gathered by kind, and made into its report."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agentcompass.components.analyzers._keys import without_keys
from agentcompass.components.contracts.analysis import (
    Advice,
    Finding,
    FinishedAttempt,
    Report,
    Stake,
    Weight,
)

LONGEST_EVIDENCE = 300
MOST_STEPS = 50
_GRAVITY: tuple[Weight, ...] = ("info", "warning", "serious")


class Kind(NamedTuple):
    """What a kind of finding means, and what to do about it."""

    severity: Weight
    meaning: str
    action: str = ""
    """Empty: there is nothing to be done."""
    stake: Stake = "nothing"
    urgent: bool = False
    suspicious: bool = False
    """It speaks of cheating: a model may be asked about it."""


class Findings:
    """At most one finding of a kind for each attempt: later ones add their steps to it."""

    def __init__(self, kinds: Mapping[str, Kind], examples: int) -> None:
        self._kinds, self._examples = kinds, examples
        self._found: dict[str, dict[tuple[str, int | None], Finding]] = {}

    def add(
        self,
        kind: str,
        attempt: FinishedAttempt,
        evidence: str,
        steps: Iterable[int] = (),
        *,
        severity: Weight | None = None,
        whole_task: bool = False,
    ) -> None:
        index = None if whole_task else attempt.record.key.index
        self.add_by_key(
            kind, attempt.task_id, index, evidence, steps, severity=severity,
            earlier_try=attempt.earlier_try,
        )  # fmt: skip

    def add_by_key(
        self,
        kind: str,
        task_id: str,
        index: int | None,
        evidence: str,
        steps: Iterable[int] = (),
        *,
        severity: Weight | None = None,
        earlier_try: int | None = None,
    ) -> None:
        of_kind = self._found.setdefault(kind, {})
        earlier = of_kind.get((task_id, index))
        known = earlier.steps if earlier else ()
        weights = (severity or self._kinds[kind].severity, *([earlier.severity] if earlier else []))
        of_kind[task_id, index] = Finding(
            kind=kind,
            task_id=task_id,
            attempt=index,
            steps=tuple(dict.fromkeys((*known, *steps)))[:MOST_STEPS],
            evidence=earlier.evidence if earlier else one_line(evidence),
            severity=max(weights, key=_GRAVITY.index),
            earlier_try=earlier_try,
        )

    def report(self, numbers: Mapping[str, Any] | None = None, intro: str = "") -> Report:
        """The kinds in their declared order: those that matter most stand first."""
        kinds = [kind for kind in self._kinds if kind in self._found]
        lines = [intro] if intro else []
        for kind in kinds:
            lines += self._lines(kind)
        return Report(
            findings=tuple(finding for kind in kinds for finding in self._found[kind].values()),
            numbers=numbers or {},
            advice=tuple(self._advice(kind) for kind in kinds if self._kinds[kind].action),
            markdown="\n".join(lines) + "\n" if lines else "",
            suspicious={k: about.meaning for k, about in self._kinds.items() if about.suspicious},
        )

    def _lines(self, kind: str) -> list[str]:
        found, about = list(self._found[kind].values()), self._kinds[kind]
        lines = [f"- **{counted(found)}: `{kind}`** ({about.severity}): {about.meaning}."]
        lines += [f"  - {described(finding)}" for finding in found[: self._examples]]
        if self._examples and len(found) > self._examples:
            lines.append(f"  - … and {len(found) - self._examples} more")
        return lines

    def _advice(self, kind: str) -> Advice:
        found, about = list(self._found[kind].values()), self._kinds[kind]
        return Advice(
            action=about.action,
            reason=f"{counted(found)}: {about.meaning}; such as {described(found[0])}",
            attempts=tuple((finding.task_id, finding.attempt) for finding in found),
            stake=about.stake,
            urgent=about.urgent,
        )


def counted(found: list[Finding]) -> str:
    """`1 attempt`, `3 tasks`"""
    word = "task" if all(finding.attempt is None for finding in found) else "attempt"
    return f"{len(found)} {word}{'s' if len(found) != 1 else ''}"


def described(finding: Finding) -> str:
    """`task-1 #2, try 1, steps 3, 4: …` on one line, and no Markdown of its own."""
    name = quoted(
        finding.task_id if finding.attempt is None else f"{finding.task_id} #{finding.attempt}"
    )
    if finding.earlier_try is not None:
        name += f", try {finding.earlier_try}"
    if finding.steps:
        shown = ", ".join(map(str, finding.steps[:6])) + (", …" if len(finding.steps) > 6 else "")
        name += f", step{'s' if len(finding.steps) > 1 else ''} {shown}"
    return f"{name}: {quoted(finding.evidence)}" if finding.evidence else name


def quoted(text: str) -> str:
    """As Markdown code: whatever an agent wrote stands there as text."""
    plain = one_line(text)
    return "`` " + plain + " ``" if "`" in plain and "``" not in plain else f"`{_no_ticks(plain)}`"


def one_line(text: str) -> str:
    """What stands in reports: without keys, which nobody should read there, and cut when long."""
    text = re.sub(r"\s+", " ", without_keys(text[: 8 * LONGEST_EVIDENCE])).strip()
    return text if len(text) <= LONGEST_EVIDENCE else text[: LONGEST_EVIDENCE - 1] + "…"


def _no_ticks(text: str) -> str:
    return text.replace("`", "'")
