"""Output in no encoding, or cut in the middle of a character, is output like any other (C20)."""

import hashlib
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from tests.cases.rig import ask, measure
from tests.cases.toy import AGENTS, Toy, one_by_one, shell, solving, told
from tests.standins.model_endpoint import ModelServer

NOT_UTF8 = r"printf '\xff\xfe\x80 ok\n'; head -c 4096 /dev/urandom; exit 7"
LONG = "python3 -c \"print('a' * 8190 + '漢' * 3000)\""
DRIPPED = """python3 - <<'END'
import sys, time
data, at, size = ("漢字" * 60).encode(), 0, 1
while at < len(data):
    sys.stdout.buffer.write(data[at:at + size])
    sys.stdout.buffer.flush()
    time.sleep(0.003)
    at, size = at + size, size % 7 + 1
END
"""
GBK = r"printf '\xc4\xe3\xba\xc3 told\n' >&2; exit 3"
FILE = "head -c 1000000 /dev/urandom > blob; sha256sum < blob"


@pytest.mark.parametrize("harness", AGENTS)
def test_odd_output_goes_on_and_good_characters_stay_whole(tmp_path: Path, harness: str) -> None:
    moves = [shell(harness, line) for line in (NOT_UTF8, LONG, DRIPPED, GBK, FILE)]
    with ModelServer(one_by_one(*solving(harness, *moves))) as endpoint:
        ran = measure(ask(tmp_path, "quickstart", harness, endpoint.base_url), Toy())
    assert ran.record("toy-1").value == 1.0
    shown = [told(harness, text) for text in ran.shown("toy-1")[:-1]]
    not_utf8, long, dripped, gbk, file, *_ = shown
    assert not_utf8.startswith("7: \ufffd\ufffd\ufffd ok\n")
    assert "\ufffd" not in long + dripped
    assert long == f"0: {'a' * 8190}{'漢' * 3000}\n" or harness == "mini_swe_agent"  # it shortens
    assert dripped == f"0: {'漢字' * 60}"
    assert gbk.startswith("3: ")
    assert gbk.endswith(" told\n")
    (blob,) = (a for a in ran.record("toy-1").submission.artifacts if a.path == "blob")  # type: ignore[union-attr]
    stored = ran.store.artifacts(AttemptKey(task_id="toy-1", index=1)).read(blob)
    assert len(stored) == 1_000_000
    assert hashlib.sha256(stored).hexdigest() in file
