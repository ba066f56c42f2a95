from pathlib import Path
from typing import Any

import pytest
import yaml

from agentcompass.components.configuration.launch_file import LaunchEntry, read_launch_file
from agentcompass.components.contracts.errors import RequestError


def entries(tmp_path: Path, *requests: Any, **more: Any) -> tuple[LaunchEntry, ...]:
    path = tmp_path / "launch.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "requests": list(requests), **more}))
    return read_launch_file(str(path)).entries


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
        ({**PLAIN, "benchmrk": "x"}, "requests[0].benchmrk: unknown key; did you mean"),
        ({"benchmark": "b", "harness": "h"}, "requests[0].model: is missing"),
        ({**PLAIN, "models": ["m"]}, "requests[0].models: is given beside model"),
        ({"benchmarks": [], "harness": "h", "model": "m"}, "requests[0].benchmarks: is not a list"),
        ({**PLAIN, "benchmark": 3}, "requests[0].benchmark: is 3"),
        ({**PLAIN, "model": {"id": "m", "url": "x"}}, "requests[0].model.url: unknown key"),
        ({**PLAIN, "output": {"runid": "x"}}, "requests[0].output.runid: unknown key"),
        ("text", "requests[0]: is not a mapping"),
        ({**PLAIN, "execution": 3}, "requests[0].execution: is not a mapping"),
        (
            {"benchmarks": ["b"] * 40, "harness": "h", "models": ["m"] * 40},
            "requests: make 1600 runs",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, request_: Any, complaint: str
) -> None:
    with pytest.raises(RequestError) as refused:
        entries(tmp_path, request_)
    assert complaint in str(refused.value)


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
