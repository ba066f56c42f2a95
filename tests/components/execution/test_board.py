"""The board's counts add up at every moment, and a look tells what follows from them."""

import random

import pytest

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Note, Verdict
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.execution import board as board_module
from agentcompass.components.execution.board import Board
from agentcompass.components.results.score_so_far import ScoreSoFar


@pytest.fixture(autouse=True)
def every_look_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(board_module, "SHARE_OF_TIME", 1e9)


def key(task: int, index: int = 1) -> AttemptKey:
    return AttemptKey(task_id=f"t{task}", index=index)


def scored(at: AttemptKey, correct: bool = True) -> AttemptRecord:
    return AttemptRecord(key=at, status="scored", verdict=Verdict(correct=correct))


def unscored(at: AttemptKey, code: Code) -> AttemptRecord:
    failure = Note(code=code, phase=Phase.RUN, message="planted")
    return AttemptRecord(key=at, status="unscored", failure=failure)


def test_the_counts_add_up_whatever_happens() -> None:
    choose, board = random.Random(3), Board(40)
    todo, running = [key(n) for n in range(40)], []
    board.adopted(scored(todo.pop()))
    board.skipped(AttemptRecord(key=todo.pop(), status="skipped"))
    while todo or running:
        if todo and (not running or choose.random() < 0.5):
            running.append(todo.pop())
            board.started(running[-1])
        else:
            at = running.pop(choose.randrange(len(running)))
            ending = choose.choice(["scored", "unscored", "pause"])
            if ending == "pause":
                board.pauses(at, 0.0, unscored(at, choose.choice(list(Code))))
                todo.append(at)
            elif ending == "scored":
                board.ended(at, scored(at))
            else:
                board.ended(at, unscored(at, choose.choice(list(Code))))
        seen = board.look()
        assert seen.running == len(running)
        assert seen.waiting == len(todo)
        assert sum(seen.unscored_by_owner.values()) == seen.unscored
        assert seen.planned == seen.running + seen.waiting + seen.ended == 40
    assert (seen.skipped, seen.taken_over) == (1, 1)


def test_a_look_tells_the_score_with_its_interval_and_the_time_left() -> None:
    board = Board(20, ScoreSoFar())
    assert (board.look().score, board.look().expected_seconds_left) == (None, None)
    for task in range(10):
        board.started(key(task))
        board.ended(key(task), scored(key(task), correct=task < 5))
    board.started(key(10))
    board.pauses(key(10), 60, unscored(key(10), Code.MODEL_UNAVAILABLE))
    seen = board.look()
    assert seen.score == 0.5
    assert seen.interval95 == pytest.approx((0.2366, 0.7634), abs=1e-4)  # Wilson, 5 of 10
    assert seen.pausing == 1
    assert seen.expected_seconds_left is not None
    assert seen.expected_seconds_left > 50
    board.close("interrupted")
    seen = board.look()
    assert (seen.state, seen.pausing, seen.expected_seconds_left) == ("interrupted", 0, None)
    assert (seen.scored, seen.unscored, seen.waiting) == (10, 1, 9)
    assert seen.score == 0.5, "the one that was to be tried again did not end by itself"


def test_what_was_taken_over_says_nothing_of_speed() -> None:
    board = Board(20)
    for task in range(15):
        board.adopted(scored(key(task)))
    board.started(key(15))
    assert board.look().expected_seconds_left is None


def test_looks_soon_after_another_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "LOOK_SECONDS", 60.0)
    board = Board(2)
    first = board.look()
    board.started(key(0))
    assert board.look() is first
    board.close("finished")
    assert board.look().state == "finished", "the last one is always true"
