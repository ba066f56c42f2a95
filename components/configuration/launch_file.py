"""A launch file: several requests, written once.

    version: 1
    name: nightly
    runtime: {task_concurrency: 16, provider_limits: {docker: 8}, results_dir: results}
    defaults:
      model: {base_url: "http://127.0.0.1:8000/v1", api_key: "${MODEL_API_KEY}"}
      execution: {max_retries: 1}
    requests:
      - {benchmark: {id: quickstart, limit: 5}, harness: tool_agent, model: {id: model-a}}
      - benchmarks: [gsm8k, humaneval]        # a matrix: every benchmark with every model
        harness: openai_chat
        models: [model-a, {id: model-b, params: {temperature: 0}}]
        execution: {attempts: {k: 3}}

A component is an id, or a mapping with `id` and its parameters. `benchmarks`, `harnesses`,
`environments` and `models` (lists) multiply a request; `defaults` lies under every request.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from agentcompass.components.configuration.json_value import read_object
from agentcompass.components.configuration.merging import merged
from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import RequestError

PLURALS = {
    "benchmark": "benchmarks",
    "harness": "harnesses",
    "environment": "environments",
    "model": "models",
}
KEYS = ("version", "name", "runtime", "defaults", "requests")
REQUEST_KEYS = (*PLURALS, *PLURALS.values(), "recipes", "execution", "output")
MODEL_KEYS = ("id", "base_url", "api_key", "api_protocol", "params")
OUTPUT_KEYS = ("run_name", "run_id", "reuse")
REQUIRED = ("benchmark", "harness", "model")
LARGEST_MATRIX = 1_000


@dataclass(frozen=True)
class LaunchEntry:
    """One request of the file, complete: matrix expanded, defaults under it."""

    place: str
    """`requests[1]`, for messages."""
    benchmark: Mapping[str, Any]
    harness: Mapping[str, Any]
    environment: Mapping[str, Any]
    """Each with `id` and parameters; an environment may be without an id: the default one."""
    model: Mapping[str, Any]
    recipes: tuple[str, ...] | None = None
    execution: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LaunchFile:
    name: str
    runtime: Mapping[str, Any]
    entries: tuple[LaunchEntry, ...]


def read_launch_file(path: str) -> LaunchFile:
    """RequestError names the file, the request and the key that is wrong."""
    content = read_object(f"@{path}", "launch")
    _known(content, KEYS, path)
    if content.get("version") != 1:
        raise RequestError(f"{path}: version", f"is {content.get('version')!r}", "write version: 1")
    requests = content.get("requests")
    if not isinstance(requests, list) or not requests:
        raise RequestError(f"{path}: requests", "is not a list with at least one request")
    defaults = _mapping(content.get("defaults", {}), f"{path}: defaults")
    _known(defaults, REQUEST_KEYS, f"{path}: defaults")
    entries = tuple(
        entry
        for number, request in enumerate(requests)
        for entry in _expanded(request, defaults, f"{path}: requests[{number}]")
    )
    if len(entries) > LARGEST_MATRIX:
        raise RequestError(
            f"{path}: requests", f"make {len(entries)} runs; {LARGEST_MATRIX} are the most"
        )
    name = content.get("name", "launch")
    if not isinstance(name, str) or not name.strip():
        raise RequestError(f"{path}: name", "is not a text")
    return LaunchFile(name, _mapping(content.get("runtime", {}), f"{path}: runtime"), entries)


def _expanded(request: Any, defaults: Mapping[str, Any], place: str) -> Iterator[LaunchEntry]:
    request = _mapping(request, place)
    _known(request, REQUEST_KEYS, place)
    for one, many in PLURALS.items():
        if one in request and many in request:
            raise RequestError(f"{place}.{many}", f"is given beside {one}", "give one of them")
    axes = [_axis(request, defaults, one, many, place) for one, many in PLURALS.items()]
    execution = merged(
        _mapping(defaults.get("execution", {}), "defaults.execution"),
        _mapping(request.get("execution", {}), f"{place}.execution"),
    )
    output = merged(
        _mapping(defaults.get("output", {}), "defaults.output"),
        _mapping(request.get("output", {}), f"{place}.output"),
    )
    _known(output, OUTPUT_KEYS, f"{place}.output")
    recipes = request.get("recipes", defaults.get("recipes"))
    for benchmark, harness, environment, model in product(*axes):
        _known(model, MODEL_KEYS, f"{place}.model")
        yield LaunchEntry(
            place=place,
            benchmark=benchmark,
            harness=harness,
            environment=environment,
            model=model,
            recipes=None if recipes is None else tuple(recipes),
            execution=execution,
            output=output,
        )


def _axis(
    request: Mapping[str, Any], defaults: Mapping[str, Any], one: str, many: str, place: str
) -> list[Mapping[str, Any]]:
    """The components of one kind, each over the default of its kind; one unless a list is given."""
    below = _component(defaults[one], f"defaults.{one}") if one in defaults else {}
    source = request if one in request or many in request else defaults
    if many in source:
        items = source[many]
        if not isinstance(items, list) or not items:
            raise RequestError(f"{place}.{many}", "is not a list with at least one entry")
    else:
        items = [source.get(one, {})]
    found: list[Mapping[str, Any]] = []
    for item in items:
        own = _component(item, f"{place}.{one}") if item != {} else {}
        # The parameters of another component are not this one's.
        same = "id" not in own or below.get("id", own["id"]) == own["id"]
        complete = merged(below, own) if same or one == "model" else own
        if one in REQUIRED and "id" not in complete:
            raise RequestError(f"{place}.{one}", "is missing", f"name a {one}, or {many}")
        found.append(complete)
    return found


def _component(value: Any, place: str) -> dict[str, Any]:
    if isinstance(value, str) and value:
        return {"id": value}
    if not isinstance(value, Mapping):
        raise RequestError(place, f"is {value!r}", "give an id, or a mapping with id")
    if "id" in value and not (isinstance(value["id"], str) and value["id"]):
        raise RequestError(f"{place}.id", "is not a text")
    return dict(value)


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RequestError(place, "is not a mapping")
    return value


def _known(values: Mapping[str, Any], keys: tuple[str, ...], place: str) -> None:
    for key in values:
        if key not in keys:
            raise RequestError(f"{place}.{key}", "unknown key", nearest(key, keys))
