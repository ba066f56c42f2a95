"""C33: no secret in results, logs, console or Prefect's database, in any form."""

import base64
import json
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from agentcompass.flows import server
from tests.flows.program import Ended, agentcompass
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

pytestmark = pytest.mark.usefixtures("prefect_home")

KEY = 'zz-CANARY-93f/+= x"y'
HEADER = "zz-SECOND-canary/71+"
PASSWORD = "zzThirdCanary55"
VARIABLE = "zz-FOURTH-canary/82+"
COMMANDS = ("env", "env | base64 -w0", "cat /proc/self/environ", "cat /proc/$PPID/environ | base64")


def forms(secret: str) -> set[bytes]:
    """Plain, JSON-escaped, URL-escaped, and base64 at each alignment."""
    raw = secret.encode()
    found = {
        raw,
        json.dumps(secret)[1:-1].encode(),
        urllib.parse.quote(secret, safe="").encode(),
        urllib.parse.quote_plus(secret).encode(),
    }
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw)
        found.add(encoded[4 if shift else 0 : -4])  # what does not depend on its neighbours
    return found


def leaks(ended: Ended, folder: Path, home: Path) -> list[str]:
    places = {"stdout": ended.stdout.encode(), "stderr": ended.stderr.encode()}
    for root in (folder, home):
        for path in root.rglob("*"):
            if path.is_file():
                places[str(path)] = path.read_bytes()
    return [
        f"{form!r} in {place}"
        for secret in (KEY, HEADER, PASSWORD, VARIABLE)
        for form in forms(secret)
        for place, content in places.items()
        if form in content
    ]


@pytest.mark.parametrize("way", ["flag", "environment"])
def test_no_canary_is_found_anywhere(
    tmp_path: Path, prefect_home: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Any) -> Reply:
        if request.number == 1:
            return Reply(text="pong")
        echoed = json.dumps(dict(request.headers))
        if request.step < len(COMMANDS):
            call = {"name": "shell", "arguments": {"command": COMMANDS[request.step]}}
            return Reply(text=f"your headers: {echoed}", tool_calls=(call,))
        return Reply(status=400, body=json.dumps({"error": {"message": f"bad: {echoed} {KEY}"}}))

    monkeypatch.setenv("CANARY_KEY", KEY)
    with ModelServer(answer) as endpoint:
        url = endpoint.base_url.replace("http://", f"http://user:{PASSWORD}@")
        words = ["run", "quickstart", "tool_agent", "m", "--model-base-url", url]
        words += ["--model-api-key", KEY if way == "flag" else "${CANARY_KEY}"]
        words += ["--model-params", json.dumps({"headers": {"x-second": HEADER}})]
        words += ["--env-params", json.dumps({"run_env": {"OTHER_API_KEY": VARIABLE}})]
        words += ["--benchmark-params", '{"limit": 2}', "--log-level", "DEBUG"]
        ended = agentcompass(*words, cwd=tmp_path)
        sent = [dict(request.headers) for request in endpoint.requests]
    assert ended.exit_code == 1, ended.stderr  # both attempts end with the refused request
    assert any(HEADER in headers.values() for headers in sent)
    assert server.status() is not None
    assert not leaks(ended, tmp_path / "results", prefect_home)
    trajectory = next((tmp_path / "results").rglob("trajectory.json")).read_text()
    assert "your headers" in trajectory
    assert "OTHER_API_KEY=***" in trajectory  # the agent had it
