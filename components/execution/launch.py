"""From a launch file, and the options over it, to requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentcompass.components.configuration.launch_file import LaunchEntry, read_launch_file
from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.execution.request import RunOptions, build_request

PROCESS_KEYS = (
    "task_concurrency", "results_dir", "data_dir", "timeout_seconds", "provider_limits",
    "env_open_qps", "progress", "log_level", "file_log_level",
)  # fmt: skip
"""What `runtime` of a launch file may say; it holds for every request."""


@dataclass(frozen=True)
class PlannedLaunch:
    name: str
    task_concurrency: int | None
    """Attempts at once over all requests; None: each request's own only."""
    requests: tuple[tuple[RunRequest, dict[str, str]], ...]
    """Each with the secrets to hold while it runs."""


def plan_launch(path: str, typed: Mapping[str, Any]) -> PlannedLaunch:
    """`typed`: options of the command line by their RunOptions names; None: not given.

    RequestError names the file, the request and the key.
    """
    file = read_launch_file(path)
    for key in file.runtime:
        if key not in PROCESS_KEYS:
            raise RequestError(f"{path}: runtime.{key}", "unknown key", nearest(key, PROCESS_KEYS))
    given = {key: value for key, value in typed.items() if value not in (None, ())}
    process = {**file.runtime, **given}
    requests = tuple(_request(entry, process) for entry in file.entries)
    _check_run_ids(requests)
    return PlannedLaunch(file.name, process.get("task_concurrency"), requests)


def _request(entry: LaunchEntry, process: Mapping[str, Any]) -> tuple[RunRequest, dict[str, str]]:
    model = dict(entry.model)
    protocol = model.get("api_protocol")
    options = {
        "benchmark": entry.benchmark["id"],
        "benchmark_params": _parameters(entry.benchmark),
        "harness": entry.harness["id"],
        "harness_params": _parameters(entry.harness),
        "env": entry.environment.get("id"),
        "env_params": _parameters(entry.environment),
        "model": model["id"],
        "model_base_url": model.get("base_url"),
        "model_api_key": _key(model.get("api_key"), entry.place),
        "model_api_protocol": (protocol,) if isinstance(protocol, str) else protocol,
        "model_params": model.get("params"),
        "recipe": entry.recipes,
        "execution_params": dict(entry.execution),
        **entry.output,
        **process,
    }
    try:
        return build_request(RunOptions(**options))
    except RequestError as error:
        raise RequestError(f"{entry.place}: {error.field}", error.problem, error.hint) from None


def _parameters(component: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in component.items() if key != "id"}


def _key(value: Any, place: str) -> str | None:
    """A key, `${NAME}`, or {env: NAME}."""
    if isinstance(value, Mapping) and set(value) == {"env"}:
        return f"${{{value['env']}}}"
    if value is not None and not isinstance(value, str):
        raise RequestError(f"{place}.model.api_key", "is not a text, ${NAME} or {env: NAME}")
    return value


def _check_run_ids(requests: tuple[tuple[RunRequest, dict[str, str]], ...]) -> None:
    seen = set()
    for request, _ in requests:
        runtime = request.runtime
        place = (
            runtime.run_name, request.model.id, request.benchmark.id, request.harness.id,
            runtime.run_id,
        )  # fmt: skip
        if runtime.run_id and place in seen:
            raise RequestError(
                "output.run_id", f"two requests would share the folder {runtime.run_id!r}",
                "give each its own run_id, or none",
            )  # fmt: skip
        seen.add(place)
