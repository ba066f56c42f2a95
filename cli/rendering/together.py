"""The progress of a launch: sums over its requests, and a row for each of a few of them."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from agentcompass.cli.rendering.launch import label
from agentcompass.cli.rendering.progress import Listen, Show, count_key
from agentcompass.cli.rendering.rows import Row
from agentcompass.components.contracts.progress import Progress, summed
from agentcompass.components.results import progress_shown
from agentcompass.components.results.numbers_shown import count
from agentcompass.components.results.progress_shown import FILLER, Fact

if TYPE_CHECKING:
    from agentcompass.flows.together import Member

REQUEST_ROWS = 4
"""As many as are under way together."""
LABEL_CELLS = (28, 20, 12)
"""Where the whole label is too long."""


class TogetherProgress:
    """Hands each run a function to report to, and shows them together."""

    def __init__(self, show: Show, planned: Sequence[int]) -> None:
        """`planned`: attempts of each request."""
        now = datetime.now(UTC)
        self._show = show
        self._heard = 0
        self._latest = [Progress(planned=n, started_at=now, updated_at=now) for n in planned]
        self._begun = [False for _ in planned]
        self.members: Sequence[Member] = ()
        """The launch's; known before the first of them begins."""

    def listener(self) -> Listen:
        number, self._heard = self._heard, self._heard + 1

        def listen(progress: Progress) -> None:
            self._latest[number], self._begun[number] = progress, True
            self._show(self._view())

        return listen

    def finish(self) -> None:
        """Show how it stands when nothing more will be reported."""
        self._show(self._view(to_come="interrupted"))

    def _view(self, to_come: str = "running") -> "LaunchView":
        """`to_come`: the state of requests that have not begun."""
        requests = []
        for member, progress, begun in zip(self.members, self._latest, self._begun, strict=True):
            if begun:
                progress = _counted_now(member, progress)
            else:  # one that was refused never reports
                state = to_come if member.exit_code is None else "failed"
                progress = progress.model_copy(update={"state": state})
            requests.append(Request(label(member.request), progress, begun))
        return LaunchView(requests)


def _counted_now(member: "Member", progress: Progress) -> Progress:
    """Its last report with the counts of this moment: sums over reports of different moments
    would tell of more attempts running than may."""
    run = member.session.run
    if run is None:
        return progress
    now = run.board.progress
    return progress.model_copy(update={name: getattr(now, name) for name in _COUNTS})


_COUNTS = ("state", "running", "scored", "unscored", "skipped", "unscored_by_owner", "usage")


class Request(NamedTuple):
    label: str
    progress: Progress
    begun: bool

    @property
    def standing(self) -> str:
        if self.begun:
            return "under way" if self.progress.state == "running" else "ended"
        return {"running": "queued", "failed": "refused"}.get(self.progress.state, "not begun")


class LaunchView:
    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._sum = summed([request.progress for request in requests])
        self.over = self._sum.state != "running"
        self.counts = (count_key(self._sum), [request.standing for request in requests])

    def sentence(self) -> str:
        facts = [fact for row in self._totals() for fact in row]
        return progress_shown.joined([fact for fact in facts if fact.importance > FILLER])

    def rows(self) -> list[Row]:
        share = self._sum.ended / max(self._sum.planned, 1)
        rows = [Row(facts, share if n == 0 else None) for n, facts in enumerate(self._totals())]
        if self.over:
            return rows
        order = ["under way", "queued", "not begun", "refused", "ended"]
        shown = sorted(self._requests, key=lambda request: order.index(request.standing))
        return rows + [Row(_facts(request)) for request in shown[:REQUEST_ROWS]]

    def _totals(self) -> list[list[Fact]]:
        now = self._sum
        return [
            progress_shown.counts(now),
            self._standings(),
            progress_shown.outcomes(now),
            [*progress_shown.spent(now), *progress_shown.time(now)],
        ]

    def _standings(self) -> list[Fact]:
        found = Counter(request.standing for request in self._requests)
        order = ("ended", "refused", "under way", "queued", "not begun")
        named = [f"{found[word]} {word}" for word in order if found[word]]
        return [Fact((f"{count(len(self._requests), 'request')}: {', '.join(named)}",))]


def _facts(request: Request) -> list[Fact]:
    """One request in a row of its own."""
    now, name = request.progress, request.label
    facts = [
        Fact((f"  {now.ended}/{now.planned}",), 9),
        Fact((name, *(_cut(name, n) for n in LABEL_CELLS)), 4),
    ]
    if not request.begun:
        return [*facts, Fact((request.standing,), 8)]
    if now.score is not None:
        (score,) = progress_shown.score(now)
        with_interval = now.interval95 is not None  # without saying that it is one of 95 %
        facts.append(score._replace(words=score.words[1:]) if with_interval else score)
    if now.unscored:
        unscored = progress_shown.unscored(now.unscored, now.unscored_by_owner)
        facts.append(unscored._replace(words=(*unscored.words, "")))
    if request.standing == "ended":
        return [*facts, Fact((now.state.replace("_", " "),), 8)]
    # The clock is the launch's.
    return [*facts, *progress_shown.time(now)[1:]]


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
