"""The solution scores full, nothing and babble score zero, the key is not in the task."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.reward import check_verdict
from agentcompass.components.contracts.task import Sample
from agentcompass.components.templates.benchmark import COMPONENT, Example, ExampleParameters

NO_DESK = cast(ArtifactDesk, None)  # nothing is captured without a sandbox


def judged(sample: Sample, answer: str | None, **parameters: bool) -> bool | None:
    benchmark = Example(ExampleParameters(**parameters))
    verdict = asyncio.run(benchmark.verify(sample, Submission(answer=answer), None, NO_DESK))
    check_verdict(verdict, benchmark.primary, benchmark.score_range)
    if answer is None:
        assert Code.SUBMISSION_EMPTY in [note.code for note in verdict.notes]
    return verdict.correct


SAMPLES = COMPONENT.create(ExampleParameters()).load(Path()).samples


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.task.id)
def test_the_solution_scores_full_and_nothing_else_does(sample: Sample) -> None:
    solution = Example(ExampleParameters()).solution(sample).answer
    assert solution
    assert judged(sample, solution)
    assert not judged(sample, None)
    assert not judged(sample, "I have done it all.")
    assert solution not in sample.task.model_dump_json()


def test_case_counts_if_it_is_asked_for() -> None:
    assert judged(SAMPLES[0], "TAC", ignore_case=True)
    assert not judged(SAMPLES[0], "TAC", ignore_case=False)


def test_ids_and_hashes_are_unique() -> None:
    assert len({sample.task.id for sample in SAMPLES}) == len(SAMPLES)
    assert len({sample.content_hash for sample in SAMPLES}) == len(SAMPLES)
