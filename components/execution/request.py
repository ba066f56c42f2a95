"""From the options of `run` to a request, and the secrets it must not hold."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentcompass.components.configuration.layers import Configuration
from agentcompass.components.configuration.merging import merged
from agentcompass.components.configuration.secrets import hide
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import (
    Choice,
    ExecutionSettings,
    RunRequest,
    RuntimeSettings,
)
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.execution.configured import configured
from agentcompass.components.execution.typed_secrets import hide_variables, refuse_secrets

DEFAULT_ENVIRONMENT = "host_process"


@dataclass(frozen=True)
class RunOptions:
    """What was typed; None: not given."""

    benchmark: str
    harness: str
    model: str
    benchmark_params: dict[str, Any] | None = None
    harness_params: dict[str, Any] | None = None
    model_base_url: str | None = None
    model_api_key: str | None = None
    model_api_protocol: tuple[str, ...] | None = None
    model_params: dict[str, Any] | None = None
    env: str | None = None
    env_params: dict[str, Any] | None = None
    recipe: tuple[str, ...] | None = None
    recipe_dirs: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    execution_params: dict[str, Any] | None = None
    enable_analysis: bool | None = None
    analysis_params: dict[str, Any] | None = None
    task_concurrency: int | None = None
    max_retries: int | None = None
    keep_environment: bool = False
    retry_pattern_list: tuple[Any, ...] | None = None
    k: int | None = None
    attempt_strategy: str | None = None
    run_name: str | None = None
    run_id: str | None = None
    reuse: str | None = None
    no_checkpoint_resume: bool = False
    results_dir: str | None = None
    data_dir: str | None = None
    timeout_seconds: int | None = None
    provider_limits: dict[str, Any] | None = None
    env_open_qps: dict[str, Any] | None = None
    progress: str | None = None
    log_level: str | None = None
    file_log_level: str | None = None
    auto_install_dependencies: bool = False
    dry_run: bool = False
    json: bool = False


def build_request(options: RunOptions) -> tuple[RunRequest, dict[str, str]]:
    """The request, and the secrets to hold while it runs. RequestError names the option."""
    settings = configured(options.config)
    key, params = options.model_api_key or "", options.model_params or {}
    _check_key(key)
    _check_headers(params)
    model, secrets = hide(
        options.model, options.model_base_url or "", key, options.model_api_protocol or (), params
    )
    environment = _choice(
        settings, "environments", options.env or DEFAULT_ENVIRONMENT, options.env_params
    )
    variables, held = hide_variables(environment.params)
    request = RunRequest(
        benchmark=_choice(settings, "benchmarks", options.benchmark, options.benchmark_params),
        harness=_choice(settings, "harnesses", options.harness, options.harness_params),
        model=model,
        environment=Choice(id=environment.id, params=variables),
        recipes=options.recipe or None,
        execution=_execution(options, settings),
        runtime=_runtime(options, settings.section("runtime")),
    )
    refuse_secrets(request)
    return request, secrets | held


def _choice(
    settings: Configuration, section: str, component_id: str, params: dict[str, Any] | None
) -> Choice:
    return Choice(
        id=component_id, params=merged(settings.section(section, component_id), params or {})
    )


def _execution(options: RunOptions, settings: Configuration) -> ExecutionSettings:
    field, params = "execution-params", options.execution_params or {}
    below = merged(
        {"analysis_params": settings.section("analyzers")}, settings.section("execution")
    )
    validate(ExecutionSettings, params, field)  # what it says is judged before options cover it
    attempts = _given(k=options.k, strategy=options.attempt_strategy)
    dedicated = _given(
        task_concurrency=options.task_concurrency,
        max_retries=options.max_retries,
        keep_environment=options.keep_environment or None,
        retry_pattern_list=options.retry_pattern_list,
        attempts=attempts or None,
        enable_analysis=options.enable_analysis,
        analysis_params=options.analysis_params,
    )
    return validate(ExecutionSettings, merged(merged(below, params), dedicated), field)


def _runtime(options: RunOptions, below: Mapping[str, Any]) -> RuntimeSettings:
    apart = {"checkpoint_resume", "recipe_dirs", "auto_install_dependencies"}
    names = set(RuntimeSettings.model_fields) - apart
    given = _given(
        **{name: getattr(options, name) for name in names},
        checkpoint_resume=False if options.no_checkpoint_resume else None,
        recipe_dirs=_recipe_dirs(options.recipe_dirs, below),
        auto_install_dependencies=options.auto_install_dependencies or None,
    )
    return validate(RuntimeSettings, merged(below, given), "run")


def _recipe_dirs(typed: tuple[str, ...], below: Mapping[str, Any]) -> list[str] | None:
    """Beside those the user trusts always. Relative ones are meant from here, and only now."""
    if not typed:
        return None
    here = [str(user_path(directory, "recipe-dir").absolute()) for directory in typed]
    return list(dict.fromkeys((*below.get("recipe_dirs", ()), *here)))


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _check_key(key: str) -> None:
    if re.fullmatch(r"\$\w+", key):
        raise RequestError(
            "model-api-key",
            f"{key} was not replaced by its value",
            f'write "{key}" in double quotes, or ${{{key[1:]}}} in single ones',
        )
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise RequestError(
            "model-api-key",
            "holds what no header can carry (accents, control characters, outer blanks)",
        )


def _check_headers(params: Mapping[str, Any]) -> None:
    """Judged here, without showing them: values of headers are secrets."""
    headers = params.get("headers")
    if headers is None:
        return
    field = "model-params.headers"
    if not isinstance(headers, Mapping):
        raise RequestError(field, "is not an object", 'write it as {"name": "value"}')
    for name, value in headers.items():
        if not isinstance(value, str):
            raise RequestError(f"{field}.{name}", "is not a string", "put it in double quotes")
