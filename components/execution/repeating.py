"""The command lines that ask for a run again, or go on with it; secrets are references."""

import json
import math
import shlex
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from agentcompass.components.configuration.layers import read_configuration
from agentcompass.components.configuration.secrets import HELD_KEY, NO_KEY
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import RunRequest, SecretReference


def way_on(request: RunRequest, run_id: str) -> str:
    """The command that makes up for what this run lacks, and keeps what it has.

    It names the run: `--reuse` alone takes the one with most finished work.
    """
    if request.rescore:
        return command(request)
    return f"{command(request)} {shlex.quote(f'--reuse={run_id}')}"


def command(request: RunRequest) -> str:
    """The same run again, into the same folder of runs: its own id is not repeated."""
    if request.rescore:
        return shlex.join(["agentcompass", "rescore", request.rescore.run_dir])
    words = ["agentcompass", "run", request.benchmark.id, request.harness.id, request.model.id]
    line = shlex.join([*words, *_components(request), *_settings(request)])
    key = request.model.api_key
    return line if key is None else f"{line} --model-api-key {_key(key)}"


def _key(key: SecretReference) -> str:
    """As the shell is to read it: a variable is expanded there, never written out. Secret blocks
    are for workers; whoever types the command has a key of their own."""
    if key.env.lower() == NO_KEY:
        return NO_KEY
    return '"$MODEL_API_KEY"' if key.block or key.env == HELD_KEY else f'"${key.env}"'


def _components(request: RunRequest) -> Iterator[str]:
    yield from ("--env", request.environment.id)
    params = {
        "--benchmark-params": request.benchmark.params,
        "--harness-params": request.harness.params,
        "--model-params": request.model.params,
        "--env-params": request.environment.params,
    }
    for flag, values in params.items():
        if values:
            yield from (flag, json.dumps(dict(values), ensure_ascii=False))
    if request.model.base_url:
        yield from ("--model-base-url", request.model.base_url)
    if request.model.api_protocol:
        yield from ("--model-api-protocol", json.dumps(request.model.api_protocol))
    for recipe in request.recipes or ():
        yield from ("--recipe", recipe)


def _settings(request: RunRequest) -> Iterator[str]:
    """What the built-in defaults or the configuration files found here would make different, and
    always the number of attempts. Without the run's name and the results folder the command would
    start elsewhere, and `--reuse` there would find other runs."""
    runtime, execution = request.runtime, dict(_telling("execution", request.execution))
    attempts = request.execution.attempts
    yield from ("--k", str(attempts.k))
    if execution.pop("attempts", None):
        yield from ("--attempt-strategy", attempts.strategy)
    if execution:
        yield from ("--execution-params", json.dumps(execution, ensure_ascii=False))
    told = dict(_telling("runtime", runtime))
    if "timeout_seconds" in told:
        yield from ("--timeout-seconds", str(math.ceil(runtime.timeout_seconds)))
    for directory in runtime.recipe_dirs:
        yield from ("--recipe-dir", directory)
    for name in ("run_name", "results_dir", "data_dir"):
        if name in told:
            yield from (f"--{name.replace('_', '-')}", told[name])
    limits = {"provider_limits": "--provider-limit", "env_open_qps": "--env-open-qps"}
    for name, flag in limits.items():
        for provider, number in told.get(name, {}).items():
            yield from (flag, f"{provider}={_plain(number)}")
    if "checkpoint_resume" in told and not runtime.checkpoint_resume:
        yield "--no-checkpoint-resume"


def _telling(section: str, settings: BaseModel) -> Iterator[tuple[str, Any]]:
    values, built_in = settings.model_dump(mode="json"), type(settings)().model_dump(mode="json")
    said = _configured(section, type(settings))
    for name, value in values.items():
        if not value == built_in[name] == said[name]:
            yield name, value


def _configured(section: str, model: type[BaseModel]) -> dict[str, Any]:
    """What the files found here make of the section. The page is written whatever they are: with
    files that cannot be read the command is refused, and says why."""
    try:
        values = validate(model, read_configuration().section(section), section)
    except (RequestError, OSError):
        values = model()
    return values.model_dump(mode="json")


def _plain(number: float) -> str:
    """Without an exponent, which the options refuse."""
    return f"{Decimal(repr(number)):f}"
