"""Every usual spelling of an endpoint's address leads to its one route, or is refused (C32)."""

import json
from pathlib import Path

import pytest

from tests.cases.rig import ask, measure, problems
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

CHAT = "/v1/chat/completions"
ROUTES = {
    "": CHAT,
    "/": CHAT,
    "/v1": CHAT,
    "/v1/": CHAT,
    "/v1/chat/completions": CHAT,
    "/team/llm/v1": f"/team/llm{CHAT}",
    "/team/llm": f"/team/llm{CHAT}",
    "/v1?api-version=1": f"{CHAT}?api-version=1",
    "/team/llm/v1/?api-version=1": f"/team/llm{CHAT}?api-version=1",
}


@pytest.fixture
def question(tmp_path: Path) -> dict[str, str]:
    data = tmp_path / "questions.jsonl"
    data.write_text(json.dumps({"question": "1 + 1?", "answer": "#### 2"}))
    return {"data_path": str(data)}


@pytest.mark.parametrize("spelling", ROUTES)
def test_preflight_and_attempts_ask_the_same_address(
    tmp_path: Path, question: dict[str, str], spelling: str
) -> None:
    with ModelServer(lambda request: Reply(text="#### 2")) as endpoint:
        url = endpoint.root + spelling
        request = ask(tmp_path, "gsm8k", "openai_chat", url, benchmark_params=question)
        assert problems(request) == ()
        assert measure(request).metrics.headline.value == 1.0
        assert [r.path for r in endpoint.requests] == [ROUTES[spelling]] * 2


@pytest.mark.parametrize(
    ("wrong", "body"),
    [
        ("/elsewhere", ""),
        ("/v2", "404 page not found\n"),
        ("/v1/models", "<html>\n<title>Not here</title>\n</html>"),
        ("/v1/v2", '{"detail": "Not Found"}'),
    ],
)
def test_a_wrong_address_is_told_in_one_line_before_any_task(
    tmp_path: Path, question: dict[str, str], wrong: str, body: str
) -> None:
    def answer(request: RequestInfo) -> Reply:
        if request.path == CHAT:
            return Reply(text="#### 2")
        return Reply(status=404, body=body)

    with ModelServer(answer) as endpoint:
        url = endpoint.root + wrong
        request = ask(tmp_path, "gsm8k", "openai_chat", url, benchmark_params=question)
        (problem,) = problems(request)
        assert len(endpoint.requests) == 1
    assert f"{endpoint.root}{endpoint.requests[0].path}: " in problem
    assert "\n" not in problem
    assert "404" in problem or "Not Found" in problem
    assert not (tmp_path / "results").exists()
