"""The command lines that ask for a run again, or go on with it; secrets are references."""

import json
import shlex
from collections.abc import Iterator

from agentcompass.components.configuration.secrets import HELD_KEY, NO_KEY
from agentcompass.components.contracts.run import (
    ExecutionSettings,
    RunRequest,
    RuntimeSettings,
    SecretReference,
)


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
    """What differs from the defaults. Without the run's name and the results folder the command
    would start elsewhere, and `--reuse` there would find other runs."""
    runtime, default = request.runtime, RuntimeSettings()
    if request.execution != ExecutionSettings():
        set_by_user = request.execution.model_dump(mode="json", exclude_defaults=True)
        yield from ("--execution-params", json.dumps(set_by_user))
    if runtime.timeout_seconds != default.timeout_seconds:
        yield from ("--timeout-seconds", f"{runtime.timeout_seconds:g}")
    for directory in runtime.recipe_dirs:
        yield from ("--recipe-dir", directory)
    if runtime.run_name:
        yield from ("--run-name", runtime.run_name)
    if runtime.results_dir != default.results_dir:
        yield from ("--results-dir", runtime.results_dir)
    if runtime.data_dir != default.data_dir:
        yield from ("--data-dir", runtime.data_dir)
