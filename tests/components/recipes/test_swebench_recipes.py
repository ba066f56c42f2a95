from typing import Any

import pytest

from agentcompass.components.contracts.recipe import RecipeContext, RecipeParameters
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.task import Task
from agentcompass.components.registry import registry

TASK = Task(id="astropy__astropy-12907", instruction="x")


def changes(
    recipe: str, environment: str, benchmark: str = "swebench_verified", **params: Any
) -> dict[str, Any] | None:
    """What a recipe does to the task; None: it is not made for this plan."""
    component = registry.load("recipes", recipe)
    made = component.create(RecipeParameters())
    context = RecipeContext(
        benchmark=benchmark,
        benchmark_params={"preparation": "prebaked", "venv": "/opt/testbed", **params},
        harness="oracle",
        environment=environment,
        model="x",
    )
    return dict(made.adapt(TASK, context)) if made.match.fits(context) else None


@pytest.mark.parametrize("environment", ["docker", "modal", "daytona"])
def test_the_published_image_and_its_place(environment: str) -> None:
    found = changes(f"swebench_{environment}_prebaked", environment)
    assert found is not None
    image = "docker.io/swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest"
    assert found["image"] == image
    assert found["workdir"] == "/testbed"
    assert found["platform"] == "linux/amd64"
    assert found["env"]["PATH"].startswith("/opt/miniconda3/envs/testbed/bin:")
    assert found["env"]["PATH"].endswith("/usr/bin:/sbin:/bin")
    Requirements().over(**found)  # every field is one of them
    for other in {"docker", "modal", "daytona", "host_process"} - {environment}:
        assert changes(f"swebench_{environment}_prebaked", other) is None
    assert changes(f"swebench_{environment}_prebaked", environment, "humaneval") is None
    cloned = changes(f"swebench_{environment}_prebaked", environment, preparation="git_clone")
    assert cloned == {}


def test_other_languages_keep_their_images_path() -> None:
    found = changes("swebench_docker_prebaked", "docker", "swebench_multilingual")
    assert found is not None
    assert "env" not in found


def test_a_clone_gets_its_place_and_its_python_first() -> None:
    assert changes("swebench_git_clone", "docker") == {}
    assert changes("swebench_git_clone", "host_process", preparation="git_clone") is None
    found = changes("swebench_git_clone", "modal", preparation="git_clone")
    assert found is not None
    assert found["workdir"] == "/testbed"
    assert found["env"]["PATH"].startswith("/opt/testbed/bin:")
    relative = changes("swebench_git_clone", "modal", preparation="git_clone", venv="")
    assert relative is not None
    assert "env" not in relative
