"""From a launch file, and the options over it, to requests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentcompass.components.configuration.launch_file import (
    LaunchEntry,
    one_line,
    read_launch_file,
)
from agentcompass.components.configuration.merging import merged
from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import PreflightRefused, RequestError
from agentcompass.components.contracts.run import ExecutionSettings, RunRequest, RuntimeSettings
from agentcompass.components.execution.configured import configured
from agentcompass.components.execution.provider_names import check_provider_names
from agentcompass.components.execution.request import RunOptions, build_request

PROCESS_KEYS = (
    "task_concurrency", "results_dir", "data_dir", "timeout_seconds", "provider_limits",
    "env_open_qps", "progress", "log_level", "file_log_level",
)  # fmt: skip
"""What `runtime` of a launch file may say; it holds for every request."""


WrongRequest = tuple[str, RequestError | PreflightRefused]


class PlannedRequest(NamedTuple):
    request: RunRequest
    secrets: dict[str, str]
    """To hold while it runs."""
    title: str
    """`requests[1] (benchmark · harness · model)`: every message about it begins so."""


@dataclass(frozen=True)
class PlannedLaunch:
    name: str
    task_concurrency: int
    """Attempts at once over all requests; one may say less for itself."""
    requests: tuple[PlannedRequest, ...]
    wrong: tuple[WrongRequest, ...] = ()
    """Those that cannot be done, each by its title."""

    def refuse(self, more: Sequence[WrongRequest] = ()) -> None:
        """Raise WrongRequests if there are any: `more` were found since."""
        if wrong := (*self.wrong, *more):
            raise WrongRequests(wrong, len(self.requests) + len(self.wrong))


class WrongRequests(Exception):
    """What makes requests of a launch impossible, each by its title. Nothing is begun."""

    def __init__(self, wrong: Sequence[WrongRequest], requests: int) -> None:
        """`requests`: how many the launch has. What is alike in all of them is told once."""
        alike = requests == len(wrong) > 1 and len({str(error) for _, error in wrong}) == 1
        self.wrong = [("every request", wrong[0][1])] if alike else list(wrong)
        super().__init__("; ".join(f"{title}: {error}" for title, error in self.wrong))


def plan_launch(path: str, typed: Mapping[str, Any]) -> PlannedLaunch:
    """`typed`: options of the command line by their RunOptions names; None: not given.

    RequestError for what is wrong in the file itself, naming the place. What makes one request
    impossible is kept in `wrong`: the others are looked at first, and all is told at once.
    """
    file = read_launch_file(path)
    _check_process(file.runtime, f"{path}: runtime")
    given = {key: value for key, value in typed.items() if value not in (None, ())}
    process = merged(file.runtime, given)
    gate = _gate(process.pop("task_concurrency", None), process.get("config", ()))
    requests: list[PlannedRequest] = []
    wrong: list[WrongRequest] = list(file.wrong)
    for entry in file.entries:
        title = _title(entry)
        try:
            requests.append(PlannedRequest(*_request(entry, process, gate), title))
        except RequestError as error:
            wrong.append((title, error))
    shared = tuple(_sharing_a_folder(requests))
    return PlannedLaunch(file.name, gate, tuple(requests), (*wrong, *shared))


def _check_process(runtime: Mapping[str, Any], place: str) -> None:
    for key in runtime:
        if key not in PROCESS_KEYS:
            raise RequestError(f"{place}.{key}", "unknown key", nearest(key, PROCESS_KEYS))
    said = {key: value for key, value in runtime.items() if value is not None}
    of_execution = {key: said.pop(key) for key in ("task_concurrency",) if key in said}
    validate(ExecutionSettings, of_execution, place)
    check_provider_names(validate(RuntimeSettings, said, place), place)


def _gate(given: int | None, config: Sequence[str]) -> int:
    """Attempts at once over all requests: what is given here, else the configured or default."""
    below = configured(config).section("execution").get("task_concurrency")
    said = {"task_concurrency": given or below} if given or below else {}
    return validate(ExecutionSettings, said, "task-concurrency").task_concurrency


def _title(entry: LaunchEntry) -> str:
    ids = " · ".join(part["id"] for part in (entry.benchmark, entry.harness, entry.model))
    return f"{entry.place} ({ids})"


def _request(
    entry: LaunchEntry, process: Mapping[str, Any], gate: int
) -> tuple[RunRequest, dict[str, str]]:
    """`gate`: attempts at once, unless the request says less for itself."""
    model = entry.model
    options = {
        "benchmark": entry.benchmark["id"],
        "benchmark_params": _parameters(entry.benchmark),
        "harness": entry.harness["id"],
        "harness_params": _parameters(entry.harness),
        "env": entry.environment.get("id"),
        "env_params": _parameters(entry.environment),
        "model": model["id"],
        "model_base_url": _address(model.get("base_url")),
        "model_api_key": _key(model.get("api_key")),
        "model_api_protocol": model.get("api_protocol"),
        "model_params": model.get("params"),
        "recipe": entry.recipes,
        "execution_params": {"task_concurrency": gate, **entry.execution},
        **entry.output,
        **process,
    }
    request, secrets = build_request(RunOptions(**options))
    execution = request.execution
    most = min(execution.task_concurrency, gate)
    execution = execution.model_copy(update={"task_concurrency": most})
    return request.model_copy(update={"execution": execution}), secrets


def _parameters(component: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in component.items() if key != "id"}


def _address(value: Any) -> str | None:
    """Never shown: a password may stand in it."""
    field = "model.base_url"
    if value is not None and not isinstance(value, str):
        raise RequestError(field, "is not a text", 'write it as "http://…"')
    try:
        return value and one_line(value)
    except ValueError as error:
        raise RequestError(field, str(error)) from None


def _key(value: Any) -> str | None:
    """A key, `${NAME}`, or {env: NAME}."""
    if isinstance(value, Mapping) and set(value) == {"env"} and isinstance(value["env"], str):
        return f"${{{value['env']}}}"
    if value is not None and not isinstance(value, str):
        raise RequestError("model.api_key", "is not a text, ${NAME} or {env: NAME}")
    return value


def _sharing_a_folder(requests: Sequence[PlannedRequest]) -> Iterator[WrongRequest]:
    seen: dict[tuple[str, ...], str] = {}
    for request, _, title in requests:
        runtime = request.runtime
        place = (
            runtime.run_name, request.model.id, request.benchmark.id, request.harness.id,
            runtime.run_id,
        )  # fmt: skip
        if runtime.run_id and place in seen:
            problem = f"{seen[place]} has the same folder {runtime.run_id!r}"
            yield title, RequestError("run_id", problem, "give each its own run_id, or none")
        seen[place] = title
