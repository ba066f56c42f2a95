"""Programs that wait for a key, a password or an editor must not hold an attempt up (C19)."""

from datetime import datetime
from pathlib import Path

import pytest

from tests.cases.rig import ask, measure
from tests.cases.toy import AGENTS, Toy, one_by_one, shell, solving, told
from tests.standins.model_endpoint import ModelServer

HISTORY = r"""
git init -q . && git config user.name A && git config user.email a@b && for n in $(seq 500); do
  printf 'commit refs/heads/master\ncommitter A <a@b> %d +0000\ndata 2\nc\n' "$n"
  printf 'M 644 inline f%d\ndata 2\nx\n' "$n"
done | git fast-import --quiet && git reset -q --hard
"""
"""A repository with 500 commits."""

STUCK_ELSEWHERE = (
    "git log",
    "git diff HEAD~50",
    "python3",
    "read x",
    "echo more >> f1; git commit -a",
    "git clone https://127.0.0.1:1/x",
    "sudo -k true",
    "read x < /dev/tty",
    "python3 -c 'import getpass; getpass.getpass()'",
)


@pytest.mark.parametrize("harness", AGENTS)
def test_nothing_waits_for_a_key_and_the_next_output_is_clean(tmp_path: Path, harness: str) -> None:
    moves = [
        shell(harness, command) for odd in STUCK_ELSEWHERE for command in (odd, "echo ok; echo ok")
    ]
    with ModelServer(one_by_one(*solving(harness, *moves))) as endpoint:
        request = ask(tmp_path, "quickstart", harness, endpoint.base_url, run_timeout_seconds=100)
        ran = measure(request, Toy(setup=HISTORY))
    assert ran.codes() == {"toy-1 #1": None}
    assert ran.record("toy-1").value == 1.0
    assert not ran.record("toy-1").timed_out
    shown = [told(harness, text) for text in ran.shown("toy-1")[:-1]]
    odd, clean = shown[0:18:2], shown[1:18:2]
    assert clean == ["0: ok\nok\n"] * len(STUCK_ELSEWHERE)  # no rest of what came before
    log, diff, _, _, commit, clone, *_ = odd
    assert log.count("commit ") > 50
    assert diff.count("diff --git") == 50
    assert "Aborting commit" in commit
    assert "127.0.0.1" in clone
    steps = [datetime.fromisoformat(s.timestamp or "") for s in ran.steps("toy-1") if s.tool_calls]
    took = [(b - a).total_seconds() for a, b in zip(steps, steps[1:], strict=False)]
    assert max(took) < 10
