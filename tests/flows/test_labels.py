"""What a run tells the API of its end is not lost to one moment in which the API fails."""

import asyncio

import pytest

from agentcompass.flows import labels


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_the_end_is_told_again_when_the_api_fails(
    monkeypatch: pytest.MonkeyPatch, failures: int, tries: int
) -> None:
    tried = 0

    async def label(values: object) -> bool:
        nonlocal tried
        tried += 1
        return tried > failures

    monkeypatch.setattr(labels, "_label", label)
    monkeypatch.setattr(labels, "PAUSE_SECONDS", 0)
    asyncio.run(labels._label_surely({}))
    assert tried == tries
