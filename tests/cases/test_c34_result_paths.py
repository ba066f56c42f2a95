"""Names of models become folders that are inside, distinct, and lead back to the name (C34)."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cases.rig import Ran, ask, measure

NAMES = (
    "orgA/m",
    "orgB/m",
    "m:latest",
    "/abs/path/ckpt-1",
    "../m",
    "a__b",
    "a/b",
    "A/b",
    "long-" + "x" * 175 + "1",
    "long-" + "x" * 175 + "2",
    "模型 🧭",
)


def run(folder: Path, model: str) -> Ran:
    """A run that calls no model and writes everything else."""
    params = {"sample_ids": ["stock-value"]}
    return measure(ask(folder, "quickstart", "idle", model=model, benchmark_params=params))


def test_each_name_has_a_folder_of_its_own_that_tells_the_name(tmp_path: Path) -> None:
    runs = {name: run(tmp_path, name) for name in NAMES}
    parents = {ran.folder.parent for ran in runs.values()}
    assert len(parents) == len(NAMES)
    assert {parent.parent for parent in parents} == {tmp_path / "results"}
    assert len({str(parent).casefold() for parent in parents}) == len(NAMES)
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"results", "boxes"}
    for name, ran in runs.items():
        document = json.loads((ran.folder / "run.json").read_text(encoding="utf-8"))
        assert document["plan"]["request"]["model"]["id"] == name
        assert name.replace("|", "\\|") in ran.summary
        assert ran.metrics.headline.value == 0.0


def test_two_at_once_share_no_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        runs = list(threads.map(lambda name: run(tmp_path, name), ["a/b", "a__b"] * 2))
    assert len({ran.folder for ran in runs}) == 4
    assert all(len(list(ran.folder.glob("tasks/*/detail.json"))) == 1 for ran in runs)
