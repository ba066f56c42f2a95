"""A reward is a finite number in its range, or the grader's error; never a NaN in a file (C39)."""

import json
import math
from pathlib import Path

import pandas
import pytest

from agentcompass.components.contracts.attempt import Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.reward import parse_reward
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import (
    AnswerKey,
    Dataset,
    Primary,
    Sample,
    Solution,
    Task,
    Verification,
)
from tests.cases.rig import Ran, ask, measure

FILES: dict[str, tuple[bytes | None, float | None]] = {
    "one": (b"1", 1.0),
    "half": (b"0.5", 0.5),
    "true": (b"true", 1.0),
    "false": (b"false", 0.0),
    "crlf": (b"1\r\n", 1.0),
    "bom": (b"\xef\xbb\xbf1", 1.0),
    "small": (b"1e-3", 0.001),
    "as bc prints it": (b".50", 0.5),
    "point at the end": (b"1.", 1.0),
    "signed": (b"+1", 1.0),
    "underscore": (b"0_1", None),
    "quoted": (b"'0.5'", None),
    "json text": (b'"0.5"', None),
    "nan": (b"NaN", None),
    "nan lower": (b"nan", None),
    "infinity": (b"Infinity", None),
    "overflow": (b"1e999", None),
    "too large for a float": (b"1" + b"0" * 400, None),
    "many digits": (b"9" * 5000, None),
    "negative": (b"-1", None),
    "two": (b"2", None),
    "empty": (b"", None),
    "object": (b"{}", None),
    "named": (b'{"a": 1}', None),
    "otherwise named": (b'{"b": 1}', None),
    "deep": (b"[" * 100_000, None),
    "not UTF-8": (b"\xff1", None),
    "missing": (None, None),
}
"""What a verifier leaves, and the score it is; None: there is none."""

NUMBERS: dict[str, Verdict | float] = {
    "nan": math.nan,
    "infinite": -math.inf,
    "above": 1.0000001,
    "no score": Verdict(),
    "the other primary": Verdict(correct=True),
    "both": Verdict(correct=True, score=1.0),
}
"""Verdicts of a grader that uses no file; every one is wrong."""


class Rewards:
    """A grader in a fresh sandbox, whose reward file holds what the task says."""

    primary: Primary = "score"
    score_range = (0.0, 1.0)
    verification: Verification = "fresh"
    needs_sandbox = False
    prepares_grading = False

    def load(self, data_dir: Path) -> Dataset:
        samples = tuple(_sample(name) for name in (*FILES, *(f"verdict: {n}" for n in NUMBERS)))
        return Dataset(samples=samples, source="rewards", content_hash="0")

    async def prepare(self, task: Task, env: Environment) -> None:
        return None

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        return submission

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        assert env is not None
        kind, _, name = sample.task.id.rpartition("verdict: ")
        if name in NUMBERS and sample.task.id.startswith("verdict: "):
            given = NUMBERS[name]
            return given if isinstance(given, Verdict) else Verdict(score=given)
        content = FILES[sample.task.id][0]
        if content is not None:
            await env.exec(["tee", "reward.txt"], stdin=content)
        try:
            return Verdict(score=parse_reward(await env.read_file("reward.txt")))
        except FileNotFoundError:
            raise AgentCompassError(Code.GRADER_INVALID_REWARD, "no reward.txt") from None

    def solution(self, sample: Sample) -> Solution:
        return Solution(answer="x")


def _sample(name: str) -> Sample:
    task = Task(id=name, instruction="x")
    return Sample(task=task, answer_key=AnswerKey(value={}), content_hash=name)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return measure(ask(tmp_path_factory.mktemp("c39"), "gsm8k", "oracle"), Rewards())


@pytest.mark.parametrize("name", FILES)
def test_each_reward_file_is_its_number_or_the_graders_error(ran: Ran, name: str) -> None:
    record, expected = ran.record(name), FILES[name][1]
    assert record.value == expected
    if expected is None:
        assert record.failure is not None
        assert record.failure.code == "grader.invalid_reward"
        assert record.failure.message
        assert len(record.failure.message) < 300


@pytest.mark.parametrize("name", NUMBERS)
def test_a_wrong_verdict_is_the_graders_error_too(ran: Ran, name: str) -> None:
    record = ran.record(f"verdict: {name}")
    assert (record.status, record.value) == ("unscored", None)
    assert record.failure is not None
    assert record.failure.code == "grader.invalid_reward"


def test_the_numbers_hold_only_what_is_a_number(ran: Ran) -> None:
    good = [value for _, value in FILES.values() if value is not None]
    (metric,) = ran.metrics.metrics
    assert metric.scored.value == pytest.approx(sum(good) / len(good))
    assert metric.scored.n_tasks == len(good)
    assert ran.metrics.failures_by_owner == {"grader": len(FILES) + len(NUMBERS) - len(good)}
    table = pandas.read_parquet(ran.store.folder.attempts_parquet)
    assert table["score"].dropna().between(0, 1).all()


def test_another_order_of_the_attempts_changes_no_byte(ran: Ran) -> None:
    names = ("metrics.json", "summary.md")
    before = {name: (ran.folder / name).read_bytes() for name in names}
    document = json.loads(ran.store.folder.run_json.read_text(encoding="utf-8"))
    ran.store.write_run({**document, "tasks": document["tasks"][::-1]})
    ran.conclude()
    assert {name: (ran.folder / name).read_bytes() for name in names} == before
