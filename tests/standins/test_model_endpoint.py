"""The stand-in itself: what tests rely on."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

ROUTES = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


def body(first: str, *, stream: bool = False) -> dict[str, object]:
    messages = [{"role": "user", "content": first}]
    return {"model": "m", "messages": messages, "input": messages, "stream": stream}


@pytest.mark.parametrize("route", ROUTES)
def test_rules_choose_by_first_message_step_and_attempt(route: str) -> None:
    script = {
        "rules": [{"match": "add", "replies": ["one"], "attempts": {2: ["again"]}}],
        "default": ["other"],
    }
    with ModelServer(script) as server:
        seen = []
        for first in ("add 2", "add 2", "subtract"):
            seen.append(httpx.post(server.root + "/deep" + route, json=body(first)).text)
    assert ['"one"' in seen[0], '"again"' in seen[1], '"other"' in seen[2]] == [True] * 3
    assert server.requests[0].path == "/deep" + route


@pytest.mark.parametrize("route", ROUTES)
def test_streams_end_as_their_protocol_ends(route: str) -> None:
    reply = Reply(text="hello", tool_calls=({"name": "f", "arguments": {"a": 1}},), reasoning="r")
    with (
        ModelServer(lambda _: reply) as server,
        httpx.stream("POST", server.root + route, json=body("x", stream=True)) as answer,
    ):
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    assert "hello" in "".join(lines)
    end = {ROUTES[0]: "[DONE]", ROUTES[1]: "response.completed", ROUTES[2]: "message_stop"}
    assert end[route] in lines[-1]


def test_a_wrong_url_is_a_404_that_names_it() -> None:
    with ModelServer({}) as server:
        answer = httpx.post(server.root + "/v1/v1/chat/completions", json=body("x"))
    assert answer.status_code == 404
    assert "/v1/v1/chat/completions" in answer.text
    assert server.requests == []


def test_a_script_with_unknown_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown keys"):
        ModelServer({"rule": []})
    with pytest.raises(ValueError, match="unknown keys"):
        ModelServer({"default": [{"txt": "x"}]})


def test_many_parallel_connections() -> None:
    async def scenario(url: str) -> set[int]:
        limits = httpx.Limits(max_connections=64)
        async with httpx.AsyncClient(limits=limits, timeout=120) as client:
            answers = await asyncio.gather(
                *(client.post(url, json=body(f"task {n % 50}")) for n in range(1_000))
            )
        return {answer.status_code for answer in answers}

    with ModelServer(lambda _: Reply(text="ok", delay_seconds=0.02)) as server:
        assert asyncio.run(scenario(server.root + ROUTES[0])) == {200}
        assert len(server.requests) == 1_000
        assert server.most_in_flight > 16


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"default": ["from a file"]}))
    command = [sys.executable, "-m", "tests.standins.model_endpoint", "--script", str(script)]
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as program:
        try:
            assert program.stdout is not None
            base_url = program.stdout.readline().strip()
            answer = httpx.post(f"{base_url}/chat/completions", json=body("x"))
        finally:
            program.kill()
    assert "from a file" in answer.text
