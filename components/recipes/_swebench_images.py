"""The published images of SWE-bench instances, and what the repository in them needs to run."""

from collections.abc import Mapping
from typing import Any

from agentcompass.components.contracts.recipe import Match, RecipeContext, RecipeParameters
from agentcompass.components.contracts.task import Task

PYTHON_BENCHMARKS = ("swebench", "swebench_lite", "swebench_verified")
BENCHMARKS = (*PYTHON_BENCHMARKS, "swebench_multilingual")
RESOURCES: Mapping[str, float] = {"cpus": 2, "memory_mb": 8192}
"""What the largest test suites (scikit-learn, matplotlib, SymPy) run in without being killed."""
CONDA = "/opt/miniconda3"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONDA_VARIABLES: Mapping[str, str] = {
    "CONDA_DEFAULT_ENV": "testbed",
    "CONDA_PREFIX": f"{CONDA}/envs/testbed",
    "PATH": f"{CONDA}/envs/testbed/bin:{CONDA}/condabin:{CONDA}/bin:{SYSTEM_PATH}",
}
"""The instance's Python first, as after `conda activate testbed`."""


def image_name(instance_id: str) -> str:
    """Docker Hub takes no double underscore in a name, and no capital."""
    name = instance_id.lower().replace("__", "_1776_")
    return f"docker.io/swebench/sweb.eval.x86_64.{name}:latest"


class PublishedImage:
    """For preparation `prebaked`, on one kind of environment."""

    def __init__(self, environment: str, parameters: RecipeParameters) -> None:
        self.match = Match(benchmarks=BENCHMARKS, environments=(environment,))

    def adapt(self, task: Task, context: RecipeContext) -> Mapping[str, Any]:
        if context.benchmark_params.get("preparation") != "prebaked":
            return {}
        changes: dict[str, Any] = {
            "image": image_name(task.id),
            "workdir": "/testbed",
            "platform": "linux/amd64",
            "resources": RESOURCES,
        }
        if context.benchmark in PYTHON_BENCHMARKS:  # the others' images set their own PATH
            changes["env"] = CONDA_VARIABLES
        return changes


class ClonedRepository:
    """For preparation `git_clone`, where the sandbox is a container of its own."""

    match = Match(benchmarks=BENCHMARKS, environments=("docker", "modal", "daytona"))

    def __init__(self, parameters: RecipeParameters) -> None:
        """Recipes take none."""

    def adapt(self, task: Task, context: RecipeContext) -> Mapping[str, Any]:
        if context.benchmark_params.get("preparation") != "git_clone":
            return {}
        changes: dict[str, Any] = {"workdir": "/testbed", "resources": RESOURCES}
        venv = context.benchmark_params.get("venv") or ""
        if venv.startswith("/"):
            changes["env"] = {"PATH": f"{venv}/bin:{SYSTEM_PATH}", "VIRTUAL_ENV": venv}
        return changes
