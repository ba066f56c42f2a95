"""Programs that wait for a key hold nothing up in a container either (C19 in Docker)."""

from pathlib import Path

from tests.cases.in_docker import InDocker
from tests.cases.rig import ask, measure
from tests.cases.test_c19_interactive_programs import HISTORY, STUCK_ELSEWHERE
from tests.cases.toy import Toy, one_by_one, shell, solving, told
from tests.components.environments.docker_engine import needs_engine
from tests.standins.model_endpoint import ModelServer

pytestmark = needs_engine

AGENT = "tool_agent"


def test_nothing_waits_for_a_key_and_the_next_output_is_clean(tmp_path: Path) -> None:
    moves = [
        shell(AGENT, command) for odd in STUCK_ELSEWHERE for command in (odd, "echo ok; echo ok")
    ]
    with ModelServer(one_by_one(*solving(AGENT, *moves))) as endpoint:
        request = ask(tmp_path, "quickstart", AGENT, endpoint.base_url, run_timeout_seconds=200)
        ran = measure(request, Toy(setup=HISTORY), environments=InDocker)
    assert ran.codes() == {"toy-1 #1": None}
    assert ran.record("toy-1").value == 1.0
    assert not ran.record("toy-1").timed_out
    shown = [told(AGENT, text) for text in ran.shown("toy-1")[:-1]]
    assert shown[1:18:2] == ["0: ok\nok\n"] * len(STUCK_ELSEWHERE)
    assert shown[0].count("commit ") > 50
