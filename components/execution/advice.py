"""analysis.md: what to do first, the most costly first; then what each analyzer found."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from agentcompass.components.contracts.analysis import Advice, FinishedAttempt, Report, Stake
from agentcompass.components.execution.model_check_outcome import check_markdown, shown, verdicts
from agentcompass.components.results.numbers_shown import count, fence, format_number

if TYPE_CHECKING:
    from agentcompass.components.execution.analysis import Analysis


@dataclass
class Attempts:
    """The attempts of the run with their points, to tell what a piece of advice is worth."""

    values: dict[tuple[str, int], float | None] = field(default_factory=dict)
    """Task id and index → the primary; None: unscored."""
    without_trajectory: int = 0
    earlier_tries: int = 0
    """Of them, looked at; they have no points."""

    def add(self, attempt: FinishedAttempt) -> None:
        if attempt.earlier_try is not None:
            self.earlier_tries += 1
            return
        key = attempt.record.key
        self.values[key.task_id, key.index] = attempt.record.value
        self.without_trajectory += attempt.trajectory is None

    @property
    def unscored(self) -> int:
        return sum(value is None for value in self.values.values())

    def points(self, attempts: Iterable[tuple[str, int | None]], stake: Stake) -> float:
        """What these attempts lost or won: an attempt is worth one point, full marks.

        Scores outside 0..1 are scaled to what was reached in this run.
        """
        if stake == "nothing":
            return 0.0
        low, high = self._range()
        total = 0.0
        for key in self._expanded(attempts):
            value = self.values[key]
            share = 0.0 if value is None else (value - low) / (high - low)
            total += share if stake == "won" else 1.0 - share
        return total

    def _expanded(self, attempts: Iterable[tuple[str, int | None]]) -> set[tuple[str, int]]:
        wanted = set(attempts)
        whole = {task for task, index in wanted if index is None}
        return {key for key in self.values if key in wanted or key[0] in whole}

    def _range(self) -> tuple[float, float]:
        known = [value for value in self.values.values() if value is not None]
        low, high = min([0.0, *known]), max([1.0, *known])
        return low, high


class Priced(NamedTuple):
    """A piece of advice, those of several analyzers with the same action made one."""

    action: str
    reasons: tuple[str, ...]
    analyzers: tuple[str, ...]
    attempts: int
    points: float
    stake: Stake
    urgent: bool
    checked: dict[str, int]
    """Verdicts of the model check on these attempts; empty: it was not asked about them."""

    @property
    def counts(self) -> bool:
        """There are points in it, as shown."""
        return self.points >= 0.005


def to_do(analysis: "Analysis") -> list[Priced]:
    """By urgency, then by points at stake, then by attempts. Of successes that are none there is
    nothing to be said."""
    together: dict[str, list[tuple[str, Advice]]] = {}
    for name, report in analysis.reports.items():
        for advice in report.advice:
            together.setdefault(advice.action, []).append((name, advice))
    priced = [_priced(found, analysis) for found in together.values()]
    vain = [item for item in priced if item.stake == "won" and not (item.urgent or item.counts)]
    return sorted((item for item in priced if item not in vain), key=_rank)


def _rank(item: Priced) -> tuple[object, ...]:
    """Undeserved points before lost ones: the number claims too much."""
    return (not item.urgent, -item.points, item.stake != "won", -item.attempts, item.action)


def _priced(found: list[tuple[str, Advice]], analysis: "Analysis") -> Priced:
    keys = {key for _, advice in found for key in advice.attempts}
    stake = next((a.stake for _, a in found if a.stake != "nothing"), found[0][1].stake)
    return Priced(
        action=found[0][1].action,
        reasons=tuple(dict.fromkeys(advice.reason for _, advice in found)),
        analyzers=tuple(dict.fromkeys(name for name, _ in found)),
        attempts=len(keys),
        points=analysis.attempts.points(keys, stake),
        stake=stake,
        urgent=any(advice.urgent for _, advice in found),
        checked=_checked([(analysis.reports[name], advice) for name, advice in found]),
    )


def _checked(found: list[tuple[Report, Advice]]) -> dict[str, int]:
    return verdicts(
        finding.checked
        for report, advice in found
        for finding in report.findings
        if finding.checked is not None
        and finding.earlier_try is None
        and (finding.task_id, finding.attempt) in advice.attempts
    )


def analysis_markdown(analysis: "Analysis", way_on: str = "") -> str:
    """`way_on`: the command that goes on with the run; "" if there is nothing left to do in it."""
    parts = ["# Analysis\n", _overview(analysis), "## What to do\n", _to_do_lines(analysis)]
    if way_on:
        ticks = fence(way_on)
        parts.append(
            "To go on, once the cause is gone (scored attempts are kept):\n\n"
            f"{ticks}bash\n{way_on}\n{ticks}\n"
        )
    broken = [f"- analyzer `{name}` failed {why}" for name, why in analysis.failed.items()]
    broken += [f"- {problem}" for problem in analysis.unreadable[:20]]
    if broken:
        parts.append("## Not analyzed\n\n" + "\n".join(broken) + "\n")
    if analysis.check is not None:
        parts.append(f"## Model check\n\n{check_markdown(analysis.check)}")
    quiet = [name for name, report in analysis.reports.items() if not report.markdown]
    for name, report in analysis.reports.items():
        if report.markdown:
            parts.append(f"## {name}\n\n{report.markdown}")
    if quiet:
        parts.append("## Nothing found\n\n" + ", ".join(quiet) + "\n")
    return "\n".join(parts)


def _overview(analysis: "Analysis") -> str:
    attempts = analysis.attempts
    text = f"{count(len(attempts.values), 'attempt')}, {attempts.unscored} without a score"
    if analysis.attempts.without_trajectory:
        text += f", {analysis.attempts.without_trajectory} without a trajectory"
    if tries := analysis.attempts.earlier_tries:
        were = "1 earlier try that does not count was"
        if tries > 1:
            were = f"{format_number(tries)} earlier tries that do not count were"
        text += f"; {were} looked at, too"
    return (
        f"{text}. Each finding names task, attempt and steps; the JSON files beside this page hold "
        "all of them.\n"
    )


def _to_do_lines(analysis: "Analysis") -> str:
    listed = to_do(analysis)
    if not analysis.attempts.values:
        return "Nothing: no attempt has ended.\n"
    if not listed:
        return "Nothing: no analyzer found anything to act on.\n"
    lines = []
    for number, item in enumerate(listed, 1):
        lines.append(f"{number}. **{item.action}.** {_stake(item)}".rstrip())
        for reason in item.reasons[:3]:
            lines.append(f"    - {reason}")
        if item.checked:
            lines.append(f"    - [model check](#model-check): {shown(item.checked)}")
        where = ", ".join(f"[{name}](#{name})" for name in item.analyzers)
        lines.append(f"    - see {where}")
    return "\n".join(lines) + "\n"


def _stake(item: Priced) -> str:
    if item.stake == "nothing":
        return ""
    one = item.points == 1
    points = format_number(round(item.points, 2)) + (" point" if one else " points")
    attempts = count(item.attempts, "attempt")
    if item.stake == "won":
        return f"Up to {points} may be undeserved ({attempts})." if item.counts else ""
    if not item.counts:
        return f"No point was lost over it ({attempts})."
    return f"Up to {points} {'was' if one else 'were'} lost here ({attempts})."
