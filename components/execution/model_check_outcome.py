"""What came of a model check: in numbers for machines, on the page for people."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agentcompass.components.analyzers._findings import described, quoted
from agentcompass.components.contracts.analysis import Checked, Finding, Report
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.results.numbers_shown import count, format_cost

VERDICTS = ("confirmed", "unsure", "refuted")
SHOWN = 50
_CAUTION = (
    "The rules' findings stand, whatever it says: it read what the agent wrote, and an agent may "
    "write for such a reader."
)


@dataclass
class CheckOutcome:
    model: str
    reports: dict[str, Report]
    """The analyzers' own, with the answers beside the findings."""
    suspicious: int
    """Findings that a model may be asked about."""
    limit: int
    """It is asked about so many of them at most."""
    asked: int = 0
    """Answered now."""
    remembered: int = 0
    """Answered in an earlier analysis; nothing was sent."""
    failed: int = 0
    """Calls that came to nothing."""
    cut_off: int = 0
    """Calls under way when the check ended; whether they cost anything is not known."""
    unshown: int = 0
    """Their steps could not be read any more."""
    problems: list[str] = field(default_factory=list)
    """Why something was not answered, one line each."""
    usage: Usage = field(default_factory=Usage)
    """Of this check's calls; no part of the run's own."""

    @property
    def over_limit(self) -> int:
        return max(0, self.suspicious - self.limit)

    @property
    def not_asked(self) -> int:
        return self.suspicious - self.asked - self.remembered - self.failed - self.cut_off

    @property
    def answers(self) -> list[tuple[str, Finding, Checked]]:
        return [
            (name, finding, finding.checked)
            for name, report in self.reports.items()
            for finding in report.findings
            if finding.checked is not None
        ]


def verdicts(answers: Iterable[Checked]) -> dict[str, int]:
    """How often each was given; those that were not are left out."""
    counted: Counter[str] = Counter(checked.verdict for checked in answers)
    return {verdict: counted[verdict] for verdict in VERDICTS if counted[verdict]}


def shown(counted: dict[str, int]) -> str:
    """`2 confirmed, 1 refuted`"""
    return ", ".join(f"{number} {verdict}" for verdict, number in counted.items())


def numbers(outcome: CheckOutcome) -> dict[str, Any]:
    """Who was asked how often, what came of it, and what it cost."""
    return {
        "model": outcome.model,
        "suspicious": outcome.suspicious,
        "answered": outcome.asked,
        "remembered": outcome.remembered,
        "failed": outcome.failed,
        "cut_off": outcome.cut_off,
        "not_asked": outcome.not_asked,
        "over_limit": outcome.over_limit,
        "verdicts": verdicts(checked for _, _, checked in outcome.answers),
        "problems": outcome.problems,
        "usage": outcome.usage.model_dump(mode="json"),
    }


def check_line(outcome: CheckOutcome) -> str:
    """One sentence or two."""
    answers = outcome.answers
    if not outcome.suspicious:
        return "Nothing to ask: no finding speaks of cheating."
    text = f"{len(answers)} of {count(outcome.suspicious, 'suspicious finding')} answered"
    if answers:
        text += f": {shown(verdicts(checked for _, _, checked in answers))}"
    if outcome.remembered:
        text += f" ({outcome.remembered} of them in an earlier analysis)"
    if outcome.failed:
        text += f"; {count(outcome.failed, 'call')} failed"
    if outcome.cut_off:
        text += f"; {count(outcome.cut_off, 'call')} cut off"
    if outcome.not_asked:
        text += f"; {outcome.not_asked} not asked about"
        if outcome.over_limit:
            text += f", {outcome.over_limit} of them because of max_findings {outcome.limit}"
    return f"{text}. {_cost(outcome.usage, outcome.cut_off)}"


def check_markdown(outcome: CheckOutcome) -> str:
    """The section of analysis.md, without a heading: the rules' word and the model's."""
    ordered = sorted(outcome.answers, key=lambda one: VERDICTS.index(one[2].verdict))
    lines = [f"{quoted(outcome.model)}: {check_line(outcome)}"]
    if ordered:
        lines[0] += f" {_CAUTION}"
    lines.append("")
    lines += [f"- **not answered**: {quoted(problem)}" for problem in outcome.problems]
    for name, finding, checked in ordered[:SHOWN]:
        lines.append(f"- **{checked.verdict}** ({checked.use}): {quoted(checked.reason)}")
        lines.append(
            f"  - the rule [{name}](#{name}) says `{finding.kind}` of {described(finding)}"
        )
    if len(ordered) > SHOWN:
        lines.append(f"- … and {len(ordered) - SHOWN} more")
    return "\n".join(lines).rstrip() + "\n"


def _cost(usage: Usage, cut_off: int) -> str:
    if not usage.calls:
        return "Nothing was spent on it." if not cut_off else "What that cost is not known."
    tokens = [n for n in (usage.input_tokens, usage.output_tokens) if n is not None]
    text = f"It took {count(usage.calls, 'call')}"
    text += f", {sum(tokens):,} tokens" if tokens else ", an unknown number of tokens"
    if usage.uncounted_calls and tokens:
        text += " or more"
    cost = format_cost(usage.cost_usd, usage.cost_partial)
    text += ", at an unknown price" if usage.cost_usd is None else f", {cost}"
    return f"{text}, apart from the run's own."
