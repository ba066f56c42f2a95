"""A model whose price nobody knows: its cost stays unknown, and nothing is asked twice (C28)."""

import logging
from pathlib import Path

import pytest

from tests.cases.rig import ask, measure, problems
from tests.cases.toy import AGENTS, Toy, number, one_by_one, shell, solving
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo, Usage

MODEL = "openai/my-local-7b"
PRICES = {"prices": {"input": 2.0, "cached_input": 0.5, "output": 10.0}}


def counted(request: RequestInfo, harness: str) -> Reply:
    """Three steps: 100, 200, 300 tokens in, 50 of them cached; 10, 20, 30 out."""
    moves = solving(harness, shell(harness, "ls"), value=number(request))
    step = request.step + 1
    usage = Usage(input=100 * step, cached=50, output=10 * step)
    reply = one_by_one(*moves)(request)
    return Reply(tool_calls=reply.tool_calls, usage=usage)


@pytest.mark.parametrize("harness", AGENTS)
def test_without_prices_tokens_count_and_the_cost_is_null(tmp_path: Path, harness: str) -> None:
    with ModelServer(lambda request: counted(request, harness)) as endpoint:
        ran = measure(ask(tmp_path, "quickstart", harness, endpoint.base_url, model=MODEL), Toy())
        assert [r.step for r in endpoint.requests] == [0, 1, 2]
        assert {r.body["model"] for r in endpoint.requests} == {MODEL}
    assert ran.metrics.headline.value == 1.0
    usage = ran.metrics.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (3, 600, 60)
    assert (usage.cached_input_tokens, usage.cost_usd, usage.unpriced_calls) == (150, None, 3)
    assert "| cost | unknown" in ran.summary
    trajectory = ran.steps("toy-1")
    assert all(s.metrics is None or s.metrics.cost_usd is None for s in trajectory)


@pytest.mark.parametrize("harness", AGENTS)
def test_with_the_users_prices_the_cost_is_the_sum_by_hand(tmp_path: Path, harness: str) -> None:
    with ModelServer(lambda request: counted(request, harness)) as endpoint:
        request = ask(
            tmp_path, "quickstart", harness, endpoint.base_url, model=MODEL, model_params=PRICES
        )
        ran = measure(request, Toy(2))
    each = (450 * 2.0 + 150 * 0.5 + 60 * 10.0) / 1e6
    assert [r.usage.cost_usd for r in ran.records().values()] == pytest.approx([each, each])
    assert ran.metrics.usage.cost_usd == pytest.approx(2 * each)
    assert ran.metrics.cost_partial is False


def test_a_total_that_lacks_a_part_says_so(tmp_path: Path) -> None:
    """The endpoint reports no tokens for one of two tasks."""

    def answer(request: RequestInfo) -> Reply:
        reply = counted(request, "tool_agent")
        return reply if number(request) == 1 else Reply(tool_calls=reply.tool_calls, usage=None)

    with ModelServer(answer) as endpoint:
        request = ask(tmp_path, "quickstart", "tool_agent", endpoint.base_url, model_params=PRICES)
        ran = measure(request, Toy(2))
    one = (450 * 2.0 + 150 * 0.5 + 60 * 10.0) / 1e6
    assert ran.record("toy-1").usage.cost_usd == pytest.approx(one)
    assert ran.record("toy-2").usage.cost_usd is None
    assert ran.metrics.usage.cost_usd == pytest.approx(one)
    assert ran.metrics.cost_partial
    assert ran.metrics.tokens_partial
    assert ran.metrics.usage.uncounted_calls == 3
    shown = [line for line in ran.summary.splitlines() if line.startswith("| cost |")]
    assert shown
    assert all("partial" in line for line in shown)


@pytest.mark.parametrize("harness", AGENTS)
def test_a_cost_limit_without_a_price_is_refused_before_the_first_task(
    tmp_path: Path, harness: str
) -> None:
    with ModelServer(lambda request: Reply(text="pong")) as endpoint:
        limited = {"cost_limit": 0.5}
        request = ask(
            tmp_path,
            "quickstart",
            harness,
            endpoint.base_url,
            model=MODEL,
            harness_params=limited,
        )
        (problem,) = problems(request)
        assert "cost_limit" in problem
        assert MODEL in problem
        assert "prices" in problem
        priced = ask(
            tmp_path,
            "quickstart",
            harness,
            endpoint.base_url,
            model=MODEL,
            harness_params=limited,
            model_params=PRICES,
        )
        assert problems(priced) == ()
        assert {r.first_user for r in endpoint.requests} == {"ping"}


def test_an_agents_own_default_limit_is_told_not_to_hold(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="agentcompass")
    with ModelServer(lambda request: Reply(text="pong")) as endpoint:
        request = ask(tmp_path, "quickstart", "mini_swe_agent", endpoint.base_url, model=MODEL)
        assert problems(request) == ()
    (told,) = (r.getMessage() for r in caplog.records if "cost_limit" in r.getMessage())
    assert "3.0 USD" in told
    assert MODEL in told
