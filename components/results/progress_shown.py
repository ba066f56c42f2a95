"""How far a run is, in words: the same on a terminal, in plain lines and on the Prefect page."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from agentcompass.components.contracts.progress import Progress

Meaning = Literal["plain", "score", "trouble"]


FILLER = 0
"""The importance of what only says that nothing is known yet; a line leaves it out."""


class Fact(NamedTuple):
    """One fact, said at length and ever shorter; "" leaves it out."""

    words: tuple[str, ...]
    importance: int = 5
    """Of a row's facts the least important is shortened first."""
    meaning: Meaning = "plain"


def sentence(progress: Progress, clock: bool = True) -> str:
    """Everything in one line. Without the clock, it changes only when the run moves on."""
    rows = (
        counts(progress),
        score(progress),
        outcomes(progress),
        [*spent(progress), *(time(progress) if clock else time(progress)[1:])],
    )
    return joined([fact for row in rows for fact in row if fact.importance > FILLER])


def joined(facts: Sequence[Fact]) -> str:
    return " · ".join(fact.words[0] for fact in facts if fact.words[0])


def counts(progress: Progress) -> list[Fact]:
    done = f"{progress.ended}/{progress.planned}"
    share = f"{100 * progress.ended // max(progress.planned, 1)} % done"
    facts = [Fact((f"{done} attempts done", f"{done} done", done, share), 4)]
    if progress.state == "running" and all_ended(progress):
        facts.append(Fact(("working out the results", ""), 3))
    elif progress.state == "running":
        facts.append(Fact((f"{progress.running} running",), 6))
        facts.append(Fact((f"{progress.waiting} queued",), 6))
    elif left := progress.planned - progress.ended:
        facts.append(Fact((f"{left} not done",), 6))
    if progress.state not in ("running", "finished"):
        facts.append(Fact((progress.state.replace("_", " "),), 6, "trouble"))
    return facts


def all_ended(progress: Progress) -> bool:
    return progress.ended == progress.planned


def score(progress: Progress) -> list[Fact]:
    """The headline over what ended; at the end of a whole run it is the result. A run that ended
    early has a lower one: what never ended counts as 0 there."""
    name = "score so far"
    if progress.state not in ("running", "finished"):
        name = "score of what ended"
    elif all_ended(progress):
        name = "score"
    if progress.score is None:
        if progress.state == "running":
            return [Fact(("no score yet",), FILLER)]
        return [Fact(("no score",))]
    value = number(progress.score)
    if progress.interval95 is None:
        return [Fact((f"{name} {value}", f"score {value}", value), 5, "score")]
    interval = " to ".join(number(end) for end in progress.interval95)
    return [
        Fact(
            (
                f"{name} {value} (95 % interval {interval})",
                f"{name} {value} ({interval})",
                f"score {value} ({interval})",
                f"{value} ({interval})",
                value,
            ),
            5,
            "score",
        )
    ]


def outcomes(progress: Progress) -> list[Fact]:
    facts = [Fact((f"{progress.scored} scored",), 5 if progress.ended else FILLER)]
    if taken := progress.taken_over:
        facts.append(Fact((f"{taken} of them taken over", f"{taken} taken over", ""), 2))
    if progress.unscored:
        facts.append(unscored(progress.unscored, progress.unscored_by_owner))
    if progress.pausing:  # they are queued
        facts.append(Fact((f"{progress.pausing} to be tried again", ""), 3))
    if progress.skipped:
        facts.append(Fact((f"{progress.skipped} not needed", ""), 3))
    return facts


def unscored(total: int, by_owner: Mapping[str, int]) -> Fact:
    """With whose fault it was, most frequent first; where there is little room, only the worst."""
    owners = sorted(by_owner.items(), key=lambda item: (-item[1], item[0]))
    words = [_blame(total, owners, shown) for shown in range(len(owners), 0, -1)]
    return Fact((*words, f"{total} unscored"), 4, "trouble")


def _blame(total: int, owners: Sequence[tuple[str, int]], shown: int) -> str:
    named = [f"{owner} {count}" for owner, count in owners[:shown]]
    if rest := sum(count for _, count in owners[shown:]):
        named.append(f"other {rest}")
    return f"{total} unscored: {', '.join(named)}"


def spent(progress: Progress) -> list[Fact]:
    """Tokens and cost so far; + where what some calls cost is unknown."""
    usage, facts = progress.usage, []
    tokens = sum(n for n in (usage.input_tokens, usage.output_tokens) if n)
    if tokens:
        partial = "+" * (usage.uncounted_calls > 0)
        facts.append(Fact((f"{compact(tokens)}{partial} tokens", ""), 2))
    if usage.cost_usd is not None:
        facts.append(Fact((f"${usage.cost_usd:,.2f}" + "+" * usage.cost_partial,), 6))
    elif usage.calls:
        facts.append(Fact(("cost unknown", ""), FILLER))
    return facts


def time(progress: Progress) -> list[Fact]:
    """Elapsed, and what is left of it."""
    running = progress.state == "running"
    until = datetime.now(UTC) if running else progress.updated_at
    elapsed = clock_time((until - progress.started_at).total_seconds())
    facts = [Fact((f"{elapsed} elapsed" if running else f"took {elapsed}", elapsed), 4)]
    if running and progress.expected_seconds_left is not None:
        left = about(progress.expected_seconds_left)
        facts.append(Fact((f"about {left} left", f"{left} left"), 5))
    elif running and not all_ended(progress):
        facts.append(Fact(("time left not known yet", ""), FILLER))
    return facts


def number(value: float) -> str:
    """Three decimals; four figures of what is no share."""
    return f"{value:.3f}" if abs(value) <= 1 else f"{value:.4g}"


def compact(count: int) -> str:
    """950, 12.3k, 4.5M."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)


def clock_time(seconds: float) -> str:
    """0:07, 12:34, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def about(seconds: float) -> str:
    """10 s, 12 min, 2 h 10 min, 3 days: no finer than an estimate deserves."""
    if seconds < 95:
        return f"{max(round(seconds / 10), 1) * 10} s"
    if seconds < 3570:
        return f"{round(seconds / 60)} min"
    tens = round(seconds / 600)
    if tens < 60:
        return f"{tens // 6} h" + (f" {tens % 6 * 10} min" if tens % 6 else "")
    hours = round(seconds / 3600)
    return f"{hours} h" if hours < 72 else f"{round(hours / 24)} days"
