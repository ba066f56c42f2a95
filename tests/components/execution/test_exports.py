"""What a benchmark hands on of a run, in a form of its own, beside the run's own files."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentcompass.components.benchmarks.quickstart import COMPONENT
from agentcompass.components.contracts.protocols import FinishedRun
from tests.cases.rig import KEY, ask, measure
from tests.components.benchmarks.swebench_repository import make_data


def test_a_swebench_run_leaves_predictions_for_each_attempt(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    ran = measure(ask(tmp_path, "swebench_verified", "oracle", k=2, benchmark_params=data))
    for index, name in ((1, "predictions.jsonl"), (2, "predictions-2.jsonl")):
        [line] = (ran.folder / name).read_text().splitlines()
        record = ran.record(ran.samples[0].task.id, index)
        assert record.submission is not None
        [artifact] = record.submission.artifacts
        kept = ran.store.artifacts(record.key).read(artifact)
        assert json.loads(line) == {
            "instance_id": ran.samples[0].task.id,
            "model_name_or_path": "my-model",
            "model_patch": kept.decode(),
        }
        assert b"diff --git" in kept


def test_an_agent_that_did_nothing_has_an_empty_patch(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    ran = measure(ask(tmp_path, "swebench_verified", "idle", benchmark_params=data))
    [line] = (ran.folder / "predictions.jsonl").read_text().splitlines()
    assert json.loads(line)["model_patch"] == ""


class Exporter:
    """quickstart with an export of its own."""

    def __init__(self, name: str, parts: Iterable[bytes]) -> None:
        self._inner = COMPONENT.create(COMPONENT.parameters())
        self._name, self._parts = name, parts

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def exports(self, run: FinishedRun) -> Mapping[str, Iterable[bytes]]:
        return {self._name: self._parts}


def test_secrets_are_masked_and_a_broken_export_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    one = {"sample_ids": ["pagination"]}

    def broken() -> Iterable[bytes]:
        yield b"a line\n"
        raise KeyError("patch")

    tried = (
        ("masked.txt", [b"key: ", KEY.encode()], b"key: ***"),
        ("broken.txt", broken(), None),
        ("../outside.txt", [b"x"], None),
    )
    for number, (name, parts, expected) in enumerate(tried):
        request = ask(tmp_path, "quickstart", "oracle", benchmark_params=one, run_name=f"r{number}")
        ran = measure(request, Exporter(name, parts))  # type: ignore[arg-type]
        assert ran.metrics.headline.value == 1
        path = ran.folder / name
        assert (path.read_bytes() if path.exists() else None) == expected
        assert not list(ran.folder.rglob("*.tmp"))
