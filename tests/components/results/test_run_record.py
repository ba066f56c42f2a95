"""run.json is read again and compared: a key that is a word in it must not change it."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.run import Choice, ModelSpec, RunPlan, RunRequest
from agentcompass.components.contracts.run import PlannedComponent as Component
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.metrics import compute_metrics
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore
from tests.components.results.records import record
from tests.components.results.test_store import HASH, task

LONG = "sk-a-long-key-of-an-account"


def plan() -> RunPlan:
    return RunPlan(
        request=RunRequest(
            benchmark=Choice(id="quickstart", params={"aggregation": "micro"}),
            harness=Choice(id="openai_chat"),
            model=ModelSpec(id="stock-7b", base_url="http://h/v1"),
        ),
        benchmark=Component(id="quickstart", version="1", origin="built in", params={}),
        harness=Component(id="openai_chat", version="1", origin="built in", params={}),
        environment=Component(id="host_process", version="2", origin="built in", params={}),
        model_protocol="openai-chat",
        model_params={"temperature": 0.0},
        primary="correct",
    )


def document() -> dict[str, Any]:
    return {
        "run_id": "20260101_000000",
        "state": "finished",
        "plan": plan().model_dump(mode="json"),
        "fingerprint": {"harness": {"id": "openai_chat"}, "recipes": {"openai": "1-ab1234cd"}},
        "dataset": {"source": "quickstart", "revision": "12345", "content_hash": "ab1234"},
        "tasks": ["django-1234", "stock-value"],
        "categories": {"django-1234": "openai", "stock-value": "stock"},
        "versions": {"python": "3.11.1234"},
    }


@pytest.mark.parametrize(
    "key", ["openai", "1234", "stock", "django", "micro", "finished", "20260101", "built in"]
)
def test_a_short_or_word_like_key_leaves_names_as_they_are(tmp_path: Path, key: str) -> None:
    store = RunStore(RunFolder(tmp_path / "run"), Masker([key]))
    store.write_run({**document(), "problem": f"the endpoint said: {key} is no key"})
    for name, category in document()["categories"].items():
        store.save_record(task(name, category), 1, HASH, record(name, 1, 1))
    read = store.read_run() or {}
    assert read["problem"] == "the endpoint said: *** is no key"
    assert {name: read[name] for name in document()} == document()
    assert RunPlan.model_validate(read["plan"]) == plan()
    metrics = compute_metrics(store.details(), read["tasks"])
    assert [one.category for one in metrics.categories] == ["openai", "stock"]


def test_a_long_key_is_masked_even_in_a_name(tmp_path: Path) -> None:
    store = RunStore(RunFolder(tmp_path / "run"), Masker([LONG]))
    told = {"fingerprint": {"params": {"a": [f"Bearer {LONG}"]}}, "categories": {LONG: LONG}}
    store.write_run({**document(), **told})
    assert LONG not in store.folder.run_json.read_text(encoding="utf-8")
    read = json.loads(store.folder.run_json.read_text(encoding="utf-8"))
    assert read["fingerprint"] == {"params": {"a": ["Bearer ***"]}}
