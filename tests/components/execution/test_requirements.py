from collections.abc import Mapping
from typing import Any

import pytest

from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.recipe import Match, RecipeContext
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.task import Task
from agentcompass.components.execution.requirements import requirements_of

CONTEXT = RecipeContext(
    benchmark="b", benchmark_params={}, harness="h", environment="docker", model="m"
)


class Fixed:
    match = Match()

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def adapt(self, task: Task, context: RecipeContext) -> Mapping[str, Any]:
        return self.changes


def complete(
    task: dict[str, Any], user: dict[str, Any], *recipes: Fixed
) -> tuple[Requirements, dict[str, Mapping[str, Any]]]:
    asked = Task(id="t", instruction="", requirements=Requirements.model_validate(task))
    parameters = validate(EnvironmentParameters, user, "env-params")
    named = [(f"recipe{number}", recipe) for number, recipe in enumerate(recipes, 1)]
    required, adaptations = requirements_of(asked, parameters, named, CONTEXT)
    return required, dict(adaptations)


def test_a_task_stands_where_nobody_else_speaks() -> None:
    task = {"image": "x", "workdir": "/w", "resources": {"cpus": 2}, "network": {"run": "none"}}
    assert complete(task, {})[0] == Requirements.model_validate(task)


@pytest.mark.parametrize(
    ("field", "task", "recipe", "user", "expected"),
    [
        ("image", "t", "r", {"setup": {"image": "u"}}, "u"),
        ("image", "t", "r", {}, "r"),
        ("workdir", "/t", "/r", {"setup": {"workdir": "/u"}}, "/u"),
        ("commands", ("t",), ("r",), {"setup": {"commands": ["u"]}}, ("u",)),
        ("commands", ("t",), ("r",), {"setup": {"commands": []}}, ()),
        ("user", "t", "r", {"user": "u"}, "u"),
        ("env", {"A": "t", "B": "t"}, {"B": "r", "C": "r"}, {"env": {"C": "u"}},
         {"A": "t", "B": "r", "C": "u"}),
        ("run_env", {"A": "t"}, {"B": "r"}, {"run_env": {"A": "u"}}, {"A": "u", "B": "r"}),
    ],
)  # fmt: skip
def test_a_recipe_wins_over_the_task_and_the_user_over_both(
    field: str, task: Any, recipe: Any, user: dict[str, Any], expected: Any
) -> None:
    required, _ = complete({field: task}, user, Fixed(**{field: recipe}))
    assert getattr(required, field) == expected


def test_limits_merge_one_by_one() -> None:
    required, _ = complete(
        {"resources": {"cpus": 1, "memory_mb": 100}},
        {"resources": {"memory_mb": 900}},
        Fixed(resources={"cpus": 4, "pids": 64}),
    )
    assert required.resources.model_dump(exclude_none=True) == {
        "cpus": 4,
        "memory_mb": 900,
        "pids": 64,
    }


def test_network_policies_replace_as_a_whole() -> None:
    task = {"network": {"baseline": "public", "run": "none", "evaluation": {"allow": ["a.org"]}}}
    required, _ = complete(task, {"network": {"run": {"deny": ["b.org"]}}})
    assert required.network.model_dump() == {
        "baseline": "public",
        "run": {"deny": ("b.org",)},
        "evaluation": None,
    }


def test_an_image_of_the_user_replaces_a_build_and_the_other_way_round() -> None:
    build = {"context": "/c", "dockerfile": "Dockerfile"}
    required, _ = complete({"build": build}, {"setup": {"image": "u"}})
    assert (required.image, required.build) == ("u", None)
    required, _ = complete({"image": "t"}, {"setup": {"build": build}})
    assert required.image is None
    assert required.build is not None


def test_what_each_recipe_changed_is_told_without_what_the_user_overruled() -> None:
    _, changes = complete(
        {},
        {"setup": {"image": "u"}},
        Fixed(image="r", workdir="/r"),
        Fixed(env={"A": "1"}),
        Fixed(),
    )
    assert changes == {"recipe1": {"workdir": "/r"}, "recipe2": {"env": {"A": "1"}}}


@pytest.mark.parametrize(
    ("one", "other", "field"),
    [
        ({"image": "a"}, {"image": "b"}, "image"),
        ({"env": {"A": "1"}}, {"env": {"A": "2"}}, "env.A"),
        ({"resources": {"cpus": 1}}, {"resources": {"cpus": 2}}, "resources.cpus"),
    ],
)
def test_two_recipes_that_disagree_are_refused_unless_the_user_decided(
    one: dict[str, Any], other: dict[str, Any], field: str
) -> None:
    with pytest.raises(RequestError, match=f"recipe1 and recipe2 disagree on {field} of task 't'"):
        complete({}, {}, Fixed(**one), Fixed(**other))
    if field == "image":
        assert complete({}, {"setup": {"image": "u"}}, Fixed(**one), Fixed(**other))[0].image == "u"


def test_recipes_that_agree_or_touch_different_keys_are_no_conflict() -> None:
    required, _ = complete(
        {},
        {},
        Fixed(image="a", env={"A": "1"}, resources={"cpus": 1}),
        Fixed(image="a", env={"B": "1"}, resources={"pids": 64}),
    )
    assert (required.image, dict(required.env)) == ("a", {"A": "1", "B": "1"})
    assert (required.resources.cpus, required.resources.pids) == (1, 64)


def test_a_recipe_cannot_change_what_no_task_has() -> None:
    with pytest.raises(RequestError, match="recipe1 changes 'imgae'"):
        complete({}, {}, Fixed(imgae="x"))


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"network": {"run": "moon"}}, "env-params.network.run: .*public, none, {allow: "),
        ({"network": {"run": {"allow": ["a b"]}}}, "'a b' is not a host"),
        ({"network": {"run": {"allow": [], "deny": []}}}, "give public, none"),
        ({"setup": {"imgae": "x"}}, "env-params.setup.imgae: unknown key.*image"),
        ({"setup": {"image": "x", "build": {"context": "."}}}, "give image or build, not both"),
        ({"resources": {"cpus": 0}}, "env-params.resources.cpus: .*greater than 0"),
        ({"resources": {"memory_mb": "2G"}}, "env-params.resources.memory_mb: .*integer"),
        ({"resources": {"cpu": 1}}, "env-params.resources.cpu: unknown key.*cpus"),
    ],
)
def test_wrong_parameters_are_refused_in_one_line(params: dict[str, Any], line: str) -> None:
    with pytest.raises(RequestError, match=line) as refused:
        validate(EnvironmentParameters, params, "env-params")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("PyPI.org.", "pypi.org"),
        ("*.pypi.org:443", "*.pypi.org:443"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("::1", "::1"),
        ("127.0.0.1:08080", "127.0.0.1:8080"),
        ("localhost", "localhost"),
        ("fe80::/10", "fe80::/10"),
        ("10.1.2.3/8:80", "10.1.2.3/8:80"),
        ("1.pool.ntp.org", "1.pool.ntp.org"),
        ("1and1.1", "1and1.1"),
    ],
)
def test_hosts_are_read_as_people_write_them(written: str, read: str) -> None:
    parameters = validate(EnvironmentParameters, {"network": {"run": {"allow": [written]}}}, "p")
    assert parameters.network is not None
    assert parameters.network.model_dump()["run"] == {"allow": (read,)}


@pytest.mark.parametrize(
    "host", ["10.0.0.0/99", "..", "...", "999.1.1.1", "1.2.3", "10.0.0.0/8/8", "::1/129", "1"]
)
def test_an_address_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(RequestError, match="is not a host"):
        validate(EnvironmentParameters, {"network": {"run": {"allow": [host]}}}, "p")


@pytest.mark.parametrize("workdir", ["rel", "../x", "/a/../b", "", "/new\nline"])
def test_a_workdir_is_an_absolute_path(workdir: str) -> None:
    with pytest.raises(RequestError, match="env-params.setup.workdir: .*absolute path"):
        validate(EnvironmentParameters, {"setup": {"workdir": workdir}}, "env-params")


@pytest.mark.parametrize("image", ["", " ", "two words"])
def test_an_image_has_a_name(image: str) -> None:
    with pytest.raises(RequestError, match="env-params.setup.image: "):
        validate(EnvironmentParameters, {"setup": {"image": image}}, "env-params")
