from pathlib import Path
from typing import Any

import pytest
import yaml

from agentcompass.components.configuration.launch_file import LaunchEntry, read_launch_file
from agentcompass.components.contracts.errors import RequestError


def entries(tmp_path: Path, *requests: Any, **more: Any) -> tuple[LaunchEntry, ...]:
    path = tmp_path / "launch.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "requests": list(requests), **more}))
    read = read_launch_file(str(path))
    assert read.wrong == ()
    return read.entries


def complaints(tmp_path: Path, *requests: Any) -> list[str]:
    path = tmp_path / "launch.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "requests": list(requests)}))
    return [f"{place}: {error}" for place, error in read_launch_file(str(path)).wrong]


PLAIN = {"benchmark": "b", "harness": "h", "model": "m"}


def test_a_component_is_an_id_or_a_mapping_with_its_parameters(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path, {**PLAIN, "benchmark": {"id": "b", "limit": 2}})
    assert (entry.benchmark, entry.harness) == ({"id": "b", "limit": 2}, {"id": "h"})
    assert (entry.environment, entry.recipes) == ({}, None)


def test_lists_multiply_in_a_stable_order(tmp_path: Path) -> None:
    made = entries(
        tmp_path,
        {"benchmarks": ["a", {"id": "b", "limit": 1}], "harness": "h", "models": ["m", "n"]},
        PLAIN,
    )
    assert [(e.benchmark["id"], e.model["id"], e.place[-11:]) for e in made] == [
        ("a", "m", "requests[0]"),
        ("a", "n", "requests[0]"),
        ("b", "m", "requests[0]"),
        ("b", "n", "requests[0]"),
        ("b", "m", "requests[1]"),
    ]


def test_defaults_lie_under_every_request_but_not_under_another_component(tmp_path: Path) -> None:
    defaults = {
        "benchmark": {"id": "b", "limit": 5},
        "model": {"base_url": "http://e", "params": {"temperature": 0, "top_p": 1}},
        "execution": {"max_retries": 1, "attempts": {"k": 2}},
    }
    first, second = entries(
        tmp_path,
        {"harness": "h", "model": {"id": "m", "params": {"top_p": 2}},
         "execution": {"attempts": {"k": 3}}},
        {"benchmark": "other", "harness": "h", "model": "n"},
        defaults=defaults,
    )  # fmt: skip
    assert first.benchmark == {"id": "b", "limit": 5}
    assert first.model["params"] == {"temperature": 0, "top_p": 2}
    assert first.execution == {"max_retries": 1, "attempts": {"k": 3}}
    assert second.benchmark == {"id": "other"}
    assert second.model == {"id": "n", **{k: defaults["model"][k] for k in ("base_url", "params")}}


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({**PLAIN, "benchmrk": "x"}, "benchmrk: unknown key; did you mean 'benchmark'"),
        ({"benchmark": "b", "harness": "h"}, "model: is missing; name a model, or models"),
        ({**PLAIN, "models": ["m"]}, "models: is given beside model"),
        ({"benchmarks": [], "harness": "h", "model": "m"}, "benchmarks: "),
        ({"benchmarks": "b", "harness": "h", "model": "m"}, "benchmarks: "),
        ({**PLAIN, "benchmark": 3}, "benchmark: is 3, neither an id nor a mapping with id"),
        ({**PLAIN, "benchmark": {"id": 3}}, "benchmark.id: "),
        ({**PLAIN, "environment": None}, "environment: is None, neither"),
        ({**PLAIN, "model": {"id": "m", "url": "x"}}, "model.url: unknown key; known: api_key"),
        ({**PLAIN, "output": {"runid": "x"}}, "output.runid: unknown key; did you mean 'run_id'"),
        ("text", "request: input should be an object, not 'text'"),
        (None, "request: "),
        ({**PLAIN, "execution": 3}, "execution: input should be an object, not 3"),
        ({**PLAIN, "output": []}, "output: "),
        ({**PLAIN, "output": {"run_id": 5}}, "output.run_id: "),
        ({**PLAIN, "recipes": 5}, "recipes: "),
        ({**PLAIN, "recipes": [5]}, "recipes.0: input should be a valid string, not 5"),
        ({**PLAIN, "recipes": "my_recipe"}, "recipes: "),
        ({**PLAIN, "recipes": {"my_recipe": 1}}, "recipes: "),
        ({**PLAIN, "model": {"id": "m", "api_protocol": 5}}, "model.api_protocol: "),
        ({**PLAIN, "model": {"id": "m", "params": "x"}}, "model.params: "),
        ({**PLAIN, "model": {"id": "m", "params": [1]}}, "model.params: "),
        ({**PLAIN, "model": "  a\nb "}, "model.id: holds a line break"),
        ({**PLAIN, "harness": " "}, "harness.id: is empty"),
        (
            {"benchmark": "b", "harness": "h", "models": ["m", {"id": "n", "parms": {}}]},
            "models.1.parms: unknown key; did you mean 'params'?",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, request_: Any, complaint: str
) -> None:
    (told,) = complaints(tmp_path, request_)
    assert told.startswith(f"requests[0]: {complaint}")


def test_every_wrong_request_is_kept_beside_the_others(tmp_path: Path) -> None:
    told = complaints(tmp_path, {**PLAIN, "recipes": 5}, PLAIN, {**PLAIN, "harnes": "h"}, "x")
    assert [line.partition(": ")[0] for line in told] == [f"requests[{n}]" for n in (0, 2, 3)]


def test_a_wrong_default_is_the_file_s(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"launch\.yaml: defaults\.model\.params: "):
        entries(tmp_path, PLAIN, defaults={"model": {"params": "x"}})


def test_a_parameter_may_have_any_name(tmp_path: Path) -> None:
    benchmark = {"id": "b", "model_dump": 1, "_hidden": [2], "copy": {"id": 3}, "": None}
    assert entries(tmp_path, {**PLAIN, "benchmark": benchmark})[0].benchmark == benchmark


def test_a_matrix_is_counted_before_it_is_made(tmp_path: Path) -> None:
    many = ["x"] * 3_000
    wide = {"benchmarks": many, "harnesses": many, "environments": many, "models": many}
    with pytest.raises(RequestError, match=f"requests: make {3_000**4 + 1} runs; 1000 are"):
        entries(tmp_path, wide, PLAIN)
    assert len(entries(tmp_path, *[PLAIN] * 1_000)) == 1_000


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("requests: []", "version: is None; write version: 1"),
        ("version: 2\nrequests: [{}]", "version: is 2"),
        ("version: 1", "requests: is not a list with at least one request"),
        ("version: 1\nrequests: []", "requests: is not a list with at least one request"),
        ("version: 1\nrequest: []", "request: unknown key; did you mean 'requests'"),
        ("version: 1\nname: ''\nrequests: [{benchmark: b, harness: h, model: m}]", "name: is not"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "launch.yaml"
    path.write_text(content)
    with pytest.raises(RequestError) as refused:
        read_launch_file(str(path))
    assert complaint in str(refused.value)
