"""Plain progress: few lines, and the last state in any case. A launch: sums and its requests."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from agentcompass.cli.rendering.progress import PlainProgress, RunView, View
from agentcompass.cli.rendering.rows import drawn
from agentcompass.cli.rendering.together import TogetherProgress
from tests.cli.rendering.shown import COUNTED, progress


def test_a_line_for_a_change_at_most_every_ten_seconds_and_always_the_end() -> None:
    lines: list[str] = []
    now = 100.0
    show = PlainProgress(lines.append, clock=lambda: now)
    show(RunView(progress(running=1)))
    assert len(lines) == 1
    show(RunView(progress(running=2)))
    assert len(lines) == 1, "too early"
    now = 111.0
    show(RunView(progress(running=2)))
    assert len(lines) == 2
    now = 200.0
    show(RunView(progress(running=2)))
    assert len(lines) == 2, "nothing changed"
    show(RunView(progress(running=0, scored=10)))
    show(RunView(progress(running=0, scored=10, state="finished")))
    assert len(lines) == 4
    show.close()
    assert len(lines) == 4, "it is there already"


def test_the_last_state_is_written_also_when_it_came_too_early_and_is_not_the_end() -> None:
    lines: list[str] = []
    show = PlainProgress(lines.append, clock=lambda: 0.0)
    show(RunView(progress(running=1)))
    show(RunView(progress(running=2)))
    show.close()
    assert [line.split(" · ")[1] for line in lines] == ["1 running", "2 running"]


class Launch:
    """Three requests of 10 attempts; what is shown of them is kept."""

    def __init__(self, requests: int = 3) -> None:
        self.shown: list[View] = []
        together = self.together = TogetherProgress(self.shown.append, [10] * requests)
        self.listen = [together.listener() for _ in range(requests)]
        self.members: list[Any] = [_member("b") for _ in range(requests)]
        together.members = self.members

    def rows(self, width: int = 100) -> list[str]:
        return [drawn(row, width - 1).plain for row in self.shown[-1].rows()]


def _member(benchmark: str) -> Any:
    """As much of a launch's member as is shown."""
    named = {"benchmark": benchmark, "harness": "h", "model": "m"}
    request = SimpleNamespace(**{key: SimpleNamespace(id=name) for key, name in named.items()})
    session = SimpleNamespace(run=None)
    return SimpleNamespace(request=request, exit_code=None, session=session)


def test_a_launch_shows_its_sums_and_each_request_under_way() -> None:
    launch = Launch()
    launch.listen[1](progress(running=2, scored=4, score=0.5, usage=COUNTED))
    launch.listen[0](
        progress(
            running=1,
            scored=3,
            unscored=2,
            unscored_by_owner={"model": 2},
            score=0.25,
            interval95=(0.1, 0.5),
            usage=COUNTED,
            expected_seconds_left=30,
        )
    )
    assert launch.rows(100) == [
        "━━━━━┄┄┄┄┄┄┄┄┄┄┄┄┄┄ 9/30 attempts done · 3 running · 18 queued",
        "3 requests: 2 under way, 1 queued",
        "7 scored · 2 unscored: model 2",
        "24.7k tokens · $1.00+ · 1:15 elapsed · time left not known yet",
        "  5/10 · b · h · m · score so far 0.250 (0.100 to 0.500) · 2 unscored: model 2 · "
        "about 30 s left",
        "  4/10 · b · h · m · score so far 0.500 · time left not known yet",
        "  0/10 · b · h · m · queued",
    ]
    assert launch.rows(60)[4] == "  5/10 · b · h · m · 0.250 (0.100 to 0.500) · 30 s left"
    assert launch.shown[-1].sentence() == (
        "9/30 attempts done · 3 running · 18 queued · 3 requests: 2 under way, 1 queued · "
        "7 scored · 2 unscored: model 2 · 24.7k tokens · $1.00+ · 1:15 elapsed"
    )


def test_a_request_that_was_refused_is_neither_waited_for_nor_forgotten() -> None:
    launch = Launch(2)
    launch.members[1].exit_code = 3
    launch.listen[0](progress(running=1))
    assert not launch.shown[-1].over
    assert "2 requests: 1 refused, 1 under way" in launch.rows()
    launch.listen[0](progress(state="finished", scored=10))
    assert launch.shown[-1].over


def test_the_end_is_shown_also_when_no_run_reports_it() -> None:
    launch = Launch(3)
    launch.listen[0](progress(state="interrupted", scored=9))
    launch.members[1].exit_code = 3
    assert not launch.shown[-1].over
    launch.together.finish()
    assert launch.shown[-1].over
    assert launch.rows()[0].endswith(" 9/30 attempts done · 21 not done · interrupted")
    assert launch.rows()[1] == "3 requests: 1 ended, 1 refused, 1 not begun"


def test_the_height_stays_the_same_until_the_end_however_many_there_are() -> None:
    launch = Launch(9)
    heights: Sequence[int] = []
    for listen in launch.listen:
        listen(progress(running=1))
        heights = [*heights, len(launch.rows())]
        listen(progress(state="finished", scored=10))
        heights = [*heights, len(launch.rows())]
    assert set(heights[:-1]) == {8}
    assert heights[-1] == 4
    assert launch.shown[-1].over


def test_the_sums_are_of_one_moment_whenever_each_request_reported() -> None:
    """One has ended its attempts since its report; the other took their places."""
    launch = Launch(2)
    boards = [progress(running=3), progress(running=0)]
    for member, now in zip(launch.members, boards, strict=True):
        member.session.run = SimpleNamespace(board=SimpleNamespace(progress=now))
    launch.listen[0](boards[0])
    launch.members[0].session.run.board.progress = progress(scored=3)
    launch.members[1].session.run.board.progress = progress(running=3)
    launch.listen[1](progress(running=3))
    assert launch.rows()[0].endswith("3/20 attempts done · 3 running · 14 queued")
