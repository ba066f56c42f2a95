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
What a component's parameters may be is judged where the component is known.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from agentcompass.components.configuration.json_value import read_object
from agentcompass.components.configuration.merging import merged
from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.frozen import Frozen

PLURALS = {
    "benchmark": "benchmarks",
    "harness": "harnesses",
    "environment": "environments",
    "model": "models",
}
KEYS = ("version", "name", "runtime", "defaults", "requests")
REQUIRED = ("benchmark", "harness", "model")
LARGEST_MATRIX = 1_000


def one_line(text: str) -> str:
    """The text, if a file's name or a header can hold it. ValueError never shows it."""
    if not text.isprintable() or text != text.strip():
        raise ValueError("holds a line break, an outer blank or another invisible character")
    return text


def _named(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return one_line(text)


def _spelt_out(value: Any) -> Any:
    """An id alone is a component without parameters."""
    if isinstance(value, str):
        return {"id": value}
    if not isinstance(value, Mapping):
        raise ValueError(f"is {value!r}, neither an id nor a mapping with id")
    return value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Name = Annotated[str, AfterValidator(_named)]
Line = Annotated[str, AfterValidator(one_line)]


class WrittenComponent(Frozen):
    """A component as the file names it."""

    model_config = ConfigDict(extra="allow")

    id: Name = ""

    _short = model_validator(mode="before")(_spelt_out)


class WrittenModel(Frozen):
    """A model as the file names it; null: as if it were not given."""

    id: Name = ""
    base_url: Any = None
    """Like the key, judged where it can be refused without being shown."""
    api_key: Any = None
    api_protocol: Annotated[tuple[Name, ...] | None, BeforeValidator(_listed)] = None
    params: Mapping[str, Any] | None = None

    _short = model_validator(mode="before")(_spelt_out)


class WrittenOutput(Frozen):
    run_name: Line | None = None
    run_id: Line | None = None
    reuse: Name | None = None


class WrittenRequest(Frozen):
    """A request, or what lies under all of them."""

    benchmark: WrittenComponent = WrittenComponent()
    benchmarks: Annotated[tuple[WrittenComponent, ...], Field(min_length=1)] = ()
    harness: WrittenComponent = WrittenComponent()
    harnesses: Annotated[tuple[WrittenComponent, ...], Field(min_length=1)] = ()
    environment: WrittenComponent = WrittenComponent()
    environments: Annotated[tuple[WrittenComponent, ...], Field(min_length=1)] = ()
    model: WrittenModel = WrittenModel()
    models: Annotated[tuple[WrittenModel, ...], Field(min_length=1)] = ()
    recipes: tuple[Name, ...] | None = None
    execution: Mapping[str, Any] = {}
    output: WrittenOutput = WrittenOutput()


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
    wrong: tuple[tuple[str, RequestError], ...] = ()
    """The requests that make no entry, each by its place."""


@dataclass(frozen=True)
class _Matrix:
    """A request before it is multiplied."""

    place: str
    axes: tuple[list[dict[str, Any]], ...]
    rest: Mapping[str, Any]

    def __len__(self) -> int:
        return prod(map(len, self.axes))

    def entries(self) -> Iterator[LaunchEntry]:
        for benchmark, harness, environment, model in product(*self.axes):
            yield LaunchEntry(self.place, benchmark, harness, environment, model, **self.rest)


def read_launch_file(path: str) -> LaunchFile:
    """RequestError names the file and the key that is wrong. What is wrong in one request is kept
    beside the others."""
    content = read_object(f"@{path}", "launch")
    _known(content, KEYS, path)
    if content.get("version") != 1:
        raise RequestError(f"{path}: version", f"is {content.get('version')!r}", "write version: 1")
    requests = content.get("requests")
    if not isinstance(requests, list) or not requests:
        raise RequestError(f"{path}: requests", "is not a list with at least one request")
    name = content.get("name", "launch")
    if not isinstance(name, str) or not name.strip():
        raise RequestError(f"{path}: name", "is not a text")
    runtime = content.get("runtime", {})
    if not isinstance(runtime, Mapping):
        raise RequestError(f"{path}: runtime", "is not a mapping")
    defaults = _written(content.get("defaults", {}), f"{path}: defaults")
    matrices: list[_Matrix] = []
    wrong: list[tuple[str, RequestError]] = []
    for number, request in enumerate(requests):
        place = f"requests[{number}]"
        try:
            matrices.append(_matrix(_written(request, place), defaults, place))
        except RequestError as error:
            key = error.field.removeprefix(place).lstrip(".") or "request"
            wrong.append((place, RequestError(key, error.problem, error.hint)))
    if (runs := sum(map(len, matrices))) > LARGEST_MATRIX:
        raise RequestError(f"{path}: requests", f"make {runs} runs; {LARGEST_MATRIX} are the most")
    entries = tuple(entry for matrix in matrices for entry in matrix.entries())
    return LaunchFile(name, runtime, entries, tuple(wrong))


def _written(value: Any, place: str) -> dict[str, Any]:
    """What was written and no more, an id alone spelt out."""
    return validate(WrittenRequest, value, place).model_dump(exclude_unset=True)


def _matrix(request: Mapping[str, Any], defaults: Mapping[str, Any], place: str) -> _Matrix:
    for one, many in PLURALS.items():
        if one in request and many in request:
            raise RequestError(f"{place}.{many}", f"is given beside {one}", "give one of them")
    axes = tuple(_axis(request, defaults, one, many, place) for one, many in PLURALS.items())
    rest = {
        "recipes": request.get("recipes", defaults.get("recipes")),
        "execution": merged(defaults.get("execution", {}), request.get("execution", {})),
        "output": merged(defaults.get("output", {}), request.get("output", {})),
    }
    return _Matrix(place, axes, rest)


def _axis(
    request: Mapping[str, Any], defaults: Mapping[str, Any], one: str, many: str, place: str
) -> list[dict[str, Any]]:
    """The components of one kind, each over the default of its kind; one unless a list is given."""
    below = defaults.get(one, {})
    source = request if one in request or many in request else defaults
    found: list[dict[str, Any]] = []
    for own in source[many] if many in source else [source.get(one, {})]:
        # The parameters of another component are not this one's.
        same = "id" not in own or below.get("id", own["id"]) == own["id"]
        complete = merged(below, own) if same or one == "model" else own
        if one in REQUIRED and "id" not in complete:
            raise RequestError(f"{place}.{one}", "is missing", f"name a {one}, or {many}")
        found.append(complete)
    return found


def _known(values: Mapping[str, Any], keys: tuple[str, ...], place: str) -> None:
    for key in values:
        if key not in keys:
            raise RequestError(f"{place}.{key}", "unknown key", nearest(key, keys))
