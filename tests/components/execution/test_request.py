"""What the options of `run` become: a request whose defaults are the settings' own."""

from typing import Any

import click
import pytest

from agentcompass.cli.run import run
from agentcompass.cli.run_command import RunOption
from agentcompass.components.configuration.secrets import HELD_KEY
from agentcompass.components.contracts.run import (
    Choice,
    ExecutionSettings,
    ModelSpec,
    RunRequest,
    RuntimeSettings,
)
from agentcompass.components.execution.request import DEFAULT_ENVIRONMENT, RunOptions, build_request


def request(**options: Any) -> RunRequest:
    return build_request(RunOptions(benchmark="b", harness="h", model="m", **options))[0]


def test_nothing_given_is_the_request_s_own_defaults() -> None:
    assert request() == RunRequest(
        benchmark=Choice(id="b"), harness=Choice(id="h"), model=ModelSpec(id="m")
    )


def test_every_option_arrives() -> None:
    made = request(
        benchmark_params={"limit": 1},
        harness_params={"a": 1},
        model_base_url="http://e/v1",
        model_api_protocol=("x", "y"),
        model_params={"temperature": 0},
        env="docker",
        env_params={"env": {}},
        task_concurrency=2,
        k=3,
        attempt_strategy="pass",
        run_name="n",
        run_id="i",
        results_dir="r",
        data_dir="d",
        timeout_seconds=0,
        progress="none",
        log_level="ERROR",
        file_log_level="INFO",
    )
    assert made.benchmark.params == {"limit": 1}
    assert made.harness.params == {"a": 1}
    assert made.model.base_url == "http://e/v1"
    assert made.model.api_protocol == ("x", "y")
    assert made.model.params == {"temperature": 0}
    assert made.environment == Choice(id="docker", params={"env": {}})
    assert made.execution.task_concurrency == 2
    assert (made.execution.attempts.k, made.execution.attempts.strategy) == (3, "pass")
    assert made.runtime == RuntimeSettings(
        run_name="n",
        run_id="i",
        results_dir="r",
        data_dir="d",
        timeout_seconds=0,
        progress="none",
        log_level="ERROR",
        file_log_level="INFO",
    )


def test_execution_params_merge_deeply_and_dedicated_options_win() -> None:
    made = request(
        execution_params={
            "attempts": {"k": 9, "strategy": "pass"},
            "task_concurrency": 9,
            "run_timeout_seconds": 60,
        },
        k=2,
    )
    assert made.execution == ExecutionSettings.model_validate(
        {
            "attempts": {"k": 2, "strategy": "pass"},
            "task_concurrency": 9,
            "run_timeout_seconds": 60,
        }
    )


def test_the_request_holds_no_secret() -> None:
    made, secrets = build_request(
        RunOptions(
            benchmark="b",
            harness="h",
            model="m",
            model_api_key="sk-1234",
            model_base_url="http://user:pass-word@e/v1",
            model_params={"headers": {"X-Token": "tok-1234"}},
        )
    )
    stored = made.model_dump_json()
    for secret in ("sk-1234", "pass-word", "tok-1234"):
        assert secret not in stored
    assert secrets[HELD_KEY] == "sk-1234"
    assert "sk-1234" in repr(secrets)


def test_the_help_shows_the_defaults_that_hold() -> None:
    shown = {
        option.name: option.shown_default for option in run.params if isinstance(option, RunOption)
    }
    plain = request()
    actual = {
        "env": DEFAULT_ENVIRONMENT,
        "task_concurrency": plain.execution.task_concurrency,
        "k": plain.execution.attempts.k,
        "attempt_strategy": plain.execution.attempts.strategy,
        "results_dir": plain.runtime.results_dir,
        "data_dir": plain.runtime.data_dir,
        "timeout_seconds": f"{plain.runtime.timeout_seconds:g}",
        "progress": plain.runtime.progress,
        "log_level": plain.runtime.log_level,
        "file_log_level": plain.runtime.file_log_level,
        "run_name": f'"{plain.runtime.run_name}"',
        "model_base_url": f'"{plain.model.base_url}"',
    }
    assert {name: shown[name] for name in actual} == {n: str(v) for n, v in actual.items()}
    assert plain.environment.id == DEFAULT_ENVIRONMENT


def test_every_option_has_its_place_in_the_request() -> None:
    names = {parameter.name for parameter in run.params}
    assert names == set(RunOptions.__dataclass_fields__)


@pytest.mark.parametrize("parameter", [p for p in run.params if isinstance(p, click.Option)])
def test_every_option_is_explained(parameter: click.Option) -> None:
    assert parameter.help
