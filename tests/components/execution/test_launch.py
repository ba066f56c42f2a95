"""What a launch file and the options over it become: requests, and one limit for all of them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.execution.launch import PlannedLaunch, WrongRequests, plan_launch

ONE = {"benchmark": "quickstart", "harness": "oracle", "model": "scripted"}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def planned(*requests: Any, typed: dict[str, Any] | None = None, **file: Any) -> PlannedLaunch:
    Path("l.yaml").write_text(yaml.safe_dump({"version": 1, "requests": list(requests), **file}))
    return plan_launch("l.yaml", typed or {})


def at_once(launch: PlannedLaunch) -> tuple[int, list[int]]:
    each = [planned.request.execution.task_concurrency for planned in launch.requests]
    return launch.task_concurrency, each


def told(launch: PlannedLaunch) -> list[str]:
    return [f"{title}: {error}" for title, error in launch.wrong]


def test_limits_of_the_command_line_lie_over_the_file_s_and_leave_the_others() -> None:
    launch = planned(
        ONE,
        runtime={"provider_limits": {"docker": 8, "modal": 9}, "env_open_qps": {"docker": 2}},
        typed={"provider_limits": {"modal": 4}, "env_open_qps": {"modal": 0.5}},
    )
    runtime = launch.requests[0].request.runtime
    assert runtime.provider_limits == {"docker": 8, "modal": 4}
    assert runtime.env_open_qps == {"docker": 2, "modal": 0.5}


def test_a_request_may_say_less_for_itself_than_there_is_for_all() -> None:
    requests = (ONE, {**ONE, "execution": {"task_concurrency": 2}})
    assert at_once(planned(*requests, runtime={"task_concurrency": 16})) == (16, [16, 2])
    typed = {"task_concurrency": 5}
    assert at_once(planned(*requests, runtime={"task_concurrency": 16}, typed=typed)) == (5, [5, 2])


def test_no_request_has_more_than_there_is_for_all() -> None:
    wide = {**ONE, "execution": {"task_concurrency": 8}}
    assert at_once(planned(wide, runtime={"task_concurrency": 3})) == (3, [3])


def test_without_a_word_the_default_is_for_all() -> None:
    assert at_once(planned(ONE, ONE)) == (32, [32, 32])


def test_what_is_configured_is_for_all_unless_the_file_says_otherwise() -> None:
    Path("agentcompass.yaml").write_text("execution: {task_concurrency: 7}")
    assert at_once(planned(ONE)) == (7, [7])
    assert at_once(planned(ONE, runtime={"task_concurrency": 9})) == (9, [9])
    Path("more.yaml").write_text("execution: {task_concurrency: 6}")
    assert at_once(planned(ONE, typed={"config": ("more.yaml",)})) == (6, [6])


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ({"base_url": 8000}, "model.base_url: is not a text"),
        ({"base_url": ["http://u:hunter2@h"]}, "model.base_url: is not a text"),
        ({"base_url": " http://u:hunter2@h"}, "model.base_url: holds a line break, an outer blank"),
        ({"api_key": 5}, "model.api_key: is not a text"),
        ({"api_key": {"env": ["hunter2"]}}, "model.api_key: is not a text"),
        ({"params": {"headers": 5}}, "model-params.headers: is not an object"),
    ],
)
def test_a_secret_s_place_is_named_and_the_secret_is_not(model: Any, complaint: str) -> None:
    (line,) = told(planned({**ONE, "model": {"id": "m", **model}}))
    assert line.startswith(f"requests[0] (quickstart · oracle · m): {complaint}")
    assert "hunter2" not in line


def test_what_is_no_request_is_told_with_what_is_impossible() -> None:
    launch = planned({**ONE, "recipes": 5}, {**ONE, "execution": {"attempts": {"k": 0}}}, ONE)
    first, second = told(launch)
    assert first.startswith("requests[0]: recipes: ")
    assert second.startswith("requests[1] (quickstart · oracle · scripted): execution-params.att")
    with pytest.raises(WrongRequests):
        launch.refuse()


@pytest.mark.parametrize(
    ("runtime", "complaint"),
    [
        ({"timeout_seconds": "long"}, "l.yaml: runtime.timeout_seconds: "),
        ({"provider_limits": 5}, "l.yaml: runtime.provider_limits: "),
        ({"provider_limits": {"dockr": 4}}, "l.yaml: runtime.provider_limits: no provider 'dockr'"),
        ({"env_open_qps": {"dockr": 4}}, "l.yaml: runtime.env_open_qps: no provider 'dockr'"),
        ({"recipe_dirs": ["/x"]}, "l.yaml: runtime.recipe_dirs: unknown key"),
    ],
)
def test_what_holds_for_all_is_the_file_s_fault(runtime: Any, complaint: str) -> None:
    with pytest.raises(RequestError) as refused:
        planned(ONE, ONE, runtime=runtime, typed={"provider_limits": {"docker": 1}})
    assert str(refused.value).startswith(complaint)
