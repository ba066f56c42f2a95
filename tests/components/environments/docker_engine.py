"""The Docker engine the tests run on: needed in CI, skipped over where there is none."""

import os
import shutil
import time
from functools import cache
from typing import Any

import pytest

IMAGE = os.environ.get("AGENTCOMPASS_TEST_IMAGE", "local/base:latest")
"""With bash, git, python3 and procps."""


@cache
def problem() -> str:
    """Why no test can run on an engine; empty: they can."""
    import docker
    from docker.errors import DockerException, ImageNotFound

    try:
        client = docker.from_env(timeout=20)
        client.ping()
        client.images.get(IMAGE)
    except ImageNotFound:
        return f"the engine has no image {IMAGE} (AGENTCOMPASS_TEST_IMAGE names another)"
    except (DockerException, OSError) as error:
        return f"no Docker engine: {error}"
    return ""


def _skipped() -> bool:
    if os.environ.get("CI") == "true":
        return False  # there its absence is a failure
    if shutil.which("docker") is None and not os.environ.get("DOCKER_HOST"):
        return True
    return bool(problem())


needs_engine = pytest.mark.skipif(_skipped(), reason="no Docker engine with the test image")


def client() -> Any:
    """The SDK's, for looking behind the provider's back."""
    import docker

    return docker.from_env(timeout=60)


def containers_of(run_id: str) -> list[dict[str, Any]]:
    """As the engine lists them, stopped ones included."""
    engine = client()
    try:
        label = f"agentcompass.run={run_id}"
        found: list[dict[str, Any]] = engine.api.containers(all=True, filters={"label": label})
        return found
    finally:
        engine.close()


def wait_until_gone(run_id: str, seconds: float = 30) -> list[str]:
    """The names that are left, once there are none or the time is over."""
    give_up = time.monotonic() + seconds
    while (left := containers_of(run_id)) and time.monotonic() < give_up:
        time.sleep(0.1)
    return [name for container in left for name in container["Names"]]
