"""Output in no encoding comes out of a container like any other (C20 in Docker)."""

import hashlib
from pathlib import Path

from agentcompass.components.contracts.attempt import AttemptKey
from tests.cases.in_docker import InDocker
from tests.cases.rig import ask, measure
from tests.cases.test_c20_odd_bytes import DRIPPED, FILE, GBK, LONG, NOT_UTF8
from tests.cases.toy import Toy, one_by_one, shell, solving, told
from tests.components.environments.docker_engine import needs_engine
from tests.standins.model_endpoint import ModelServer

pytestmark = needs_engine

AGENT = "tool_agent"


def test_odd_output_goes_on_and_good_characters_stay_whole(tmp_path: Path) -> None:
    moves = [shell(AGENT, line) for line in (NOT_UTF8, LONG, DRIPPED, GBK, FILE)]
    with ModelServer(one_by_one(*solving(AGENT, *moves))) as endpoint:
        request = ask(tmp_path, "quickstart", AGENT, endpoint.base_url)
        ran = measure(request, Toy(), environments=InDocker)
    assert ran.record("toy-1").value == 1.0
    shown = [told(AGENT, text) for text in ran.shown("toy-1")[:-1]]
    not_utf8, long, dripped, gbk, file, *_ = shown
    assert not_utf8.startswith("7: \ufffd\ufffd\ufffd ok\n")
    assert long == f"0: {'a' * 8190}{'漢' * 3000}\n"
    assert dripped == f"0: {'漢字' * 60}"
    assert gbk.startswith("3: ")
    assert gbk.endswith(" told\n")
    (blob,) = (a for a in ran.record("toy-1").submission.artifacts if a.path == "blob")  # type: ignore[union-attr]
    stored = ran.store.artifacts(AttemptKey(task_id="toy-1", index=1)).read(blob)
    assert len(stored) == 1_000_000
    assert hashlib.sha256(stored).hexdigest() in file
