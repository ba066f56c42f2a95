import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from agentcompass.components.benchmarks._swebench.predictions import prediction

PATCH = b"diff --git a/x b/x\n" + "caf\xe9\u2028 \r\n".encode() + b"\xff\n"
READ = """
import sys
from swebench.harness.utils import get_predictions_from_file
for path in sys.argv[1:]:
    rows = get_predictions_from_file(path, "", "")
    assert [row["instance_id"] for row in rows] == ["a__b-1", "a__b-2"], rows
    assert {row["model_name_or_path"] for row in rows} == {"m"}, rows
    assert rows[1]["model_patch"] == "", rows
    print(rows[0]["model_patch"].encode("utf-8", "surrogateescape").hex())
    from swebench.harness.reporting import make_run_report
    report = make_run_report({row["instance_id"]: row for row in rows}, rows, "run")
    assert '"empty_patch_instances": 1' in report.read_text()
"""


def test_a_patch_travels_as_it_is() -> None:
    lines = prediction("a__b-1", "m", PATCH) + prediction("a__b-2", "m", b"")
    [first, second] = [json.loads(line) for line in lines.splitlines()]
    assert first["model_patch"].encode("utf-8", "surrogateescape") == PATCH
    assert second == {"instance_id": "a__b-2", "model_name_or_path": "m", "model_patch": ""}


def test_the_official_harness_reads_them(tmp_path: Path) -> None:
    try:
        distribution("swebench")
    except PackageNotFoundError:
        pytest.skip("needs agentcompass[swebench]")
    lines = prediction("a__b-1", "m", PATCH) + prediction("a__b-2", "m", b"")
    (tmp_path / "p.jsonl").write_bytes(lines)
    done = subprocess.run(
        [sys.executable, "-c", READ, "p.jsonl"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == PATCH.hex()
