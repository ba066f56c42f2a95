"""An endpoint that fails is told once, not once for each try; the run's log has every one."""

import asyncio
import logging

import pytest

from agentcompass.components.models import _backoff, _trouble
from agentcompass.components.models._client import ApiProvider
from tests.components.models.conversations import attempt, provider, request, with_provider
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

CALLS, FAULTS = 12, 60


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backoff, "LONGEST_DELAY", 0.05)


async def ask_together(made: ApiProvider) -> None:
    clients = [made.client(attempt(f"task-{n}")) for n in range(CALLS)]
    await asyncio.gather(*(client.complete(request()) for client in clients))


def told(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == level and r.name == NAME]


NAME = "agentcompass.components.models._trouble"


@pytest.mark.parametrize("status", [429, 500])
def test_an_outage_is_told_at_its_beginning_and_at_its_end(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    def script(asked: RequestInfo) -> Reply:
        fails = asked.number <= FAULTS
        return Reply(status=status, body="{}") if fails else Reply(text="fine")

    caplog.set_level(logging.DEBUG)
    with ModelServer(script) as server:
        with_provider(provider("openai-chat", server.base_url), ask_together)
    first, last = told(caplog, logging.INFO)
    assert f"status {status}" in first
    assert "1 call waits for it, giving up after 600 s each" in first
    assert last.startswith("the endpoint answers again")
    each = told(caplog, logging.DEBUG)
    assert len(each) == FAULTS
    assert all(f"status {status}" in line and line.startswith("task-") for line in each)


def test_one_that_lasts_is_told_with_how_many_wait_and_ever_more_rarely(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_trouble, "FIRST_LULL", 0.1)
    caplog.set_level(logging.INFO)
    with ModelServer(lambda _: Reply(status=503)) as server:
        made = provider("openai-chat", server.base_url, max_retry_seconds=2)
        with pytest.raises(Exception, match="503"):
            with_provider(made, ask_together)
    lines = told(caplog, logging.INFO)
    assert 2 <= len(lines) <= 4  # at 0, 0.1, 0.4 and 1.3 s
    assert f"{CALLS} calls wait for it" in lines[-1]
