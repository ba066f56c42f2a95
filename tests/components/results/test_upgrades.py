import json
import pickle

import pytest

from agentcompass.components.contracts.attempt import Checkpoint, Detail
from agentcompass.components.contracts.progress import Progress
from agentcompass.components.contracts.trajectory import Trajectory
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.reading import DamagedRecord, read_record
from agentcompass.components.results.upgrades import CURRENT, UPGRADES, UnknownVersion, upgrade

CURRENT_3 = {**CURRENT, "detail": 3}
STEPS = {
    ("detail", 1): lambda old: {**old, "schema_version": 2, "path": [*old.get("path", []), 1]},
    ("detail", 2): lambda old: {**old, "schema_version": 3, "path": [*old.get("path", []), 2]},
}


def test_an_old_record_is_upgraded_step_by_step():
    old = {"schema_version": 1, "task_id": "t"}
    new = upgrade("detail", old, current=CURRENT_3, upgrades=STEPS)
    assert new == {"schema_version": 3, "task_id": "t", "path": [1, 2]}
    assert old == {"schema_version": 1, "task_id": "t"}


def test_a_current_record_is_left_alone():
    record = {"schema_version": 3}
    assert upgrade("detail", record, current=CURRENT_3, upgrades=STEPS) is record


@pytest.mark.parametrize("version", [0, 4, None, "1", "ATIF-v1.7", True, 1.0, [], {}])
def test_an_unknown_version_is_refused_with_both_versions(version):
    with pytest.raises(UnknownVersion) as caught:
        upgrade("detail", {"schema_version": version}, current=CURRENT_3, upgrades=STEPS)
    assert repr(version) in str(caught.value)
    assert "3" in str(caught.value)


def test_an_upgrade_of_another_kind_is_not_used():
    with pytest.raises(UnknownVersion):
        upgrade(
            "checkpoint",
            {"schema_version": 1},
            current={**CURRENT, "checkpoint": 3},
            upgrades=STEPS,
        )


def test_an_upgrade_that_leads_nowhere_ends():
    stuck = {("detail", 1): lambda old: old}
    with pytest.raises(UnknownVersion):
        upgrade("detail", {"schema_version": 1}, current=CURRENT_3, upgrades=stuck)


def test_the_table_leads_every_old_version_to_the_current_one():
    for kind, version in UPGRADES:
        assert version != CURRENT[kind]
    for kind, model in (
        ("detail", Detail),
        ("checkpoint", Checkpoint),
        ("trajectory", Trajectory),
        ("metrics", Metrics),
        ("progress", Progress),
    ):
        assert model.model_fields["schema_version"].default == CURRENT[kind]


@pytest.mark.parametrize("attempts", [[1], None, "ab", [{}, []], 3, {"a": 1}])
def test_an_old_record_of_another_shape_is_damaged(tmp_path, attempts):
    path = tmp_path / "detail.json"
    path.write_text(json.dumps({"schema_version": 1, "task_id": "t", "attempts": attempts}))
    with pytest.raises(DamagedRecord, match="detail"):
        read_record(path, "detail", Detail)


def test_reading_errors_survive_a_process_pool(tmp_path):
    error = DamagedRecord(tmp_path / "x.json", "torn")
    again = pickle.loads(pickle.dumps(error))
    assert (again.path, again.reason, str(again)) == (error.path, error.reason, str(error))
