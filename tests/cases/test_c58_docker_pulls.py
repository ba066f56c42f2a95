"""A registry that limits pulls costs time, never a score, and each image is pulled once (C58).

With it: what ran is in the record by its digest (C45).
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import Code
from agentcompass.components.environments._docker import images as _docker_images
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.cases.rig import Ran, ask, measure
from tests.cases.toy import Toy
from tests.components.environments.docker_images_rig import Lab, lab
from tests.standins.engine_proxy import engine_proxy
from tests.standins.registry import Registry, serving
from tests.standins.small_root import small_root

assert lab  # a fixture

TASKS = 4


@pytest.fixture
def registry(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(_docker_images, "_FIRST_PAUSE_SECONDS", 0.1)
    with serving() as registry:
        yield registry


def run(
    folder: Path,
    image: str,
    *,
    host: str | None = None,
    may_stop: bool = False,
    at_once: int = TASKS,
) -> Ran:
    """Four tasks, the known-good solution played back, in containers of `image`."""
    request = ask(folder, "quickstart", "oracle", task_concurrency=at_once, max_retries=0)
    chosen = request.environment
    chosen = chosen.model_copy(update={"params": {**chosen.params, "setup": {"image": image}}})
    request = request.model_copy(update={"environment": chosen})
    docker = Docker(DockerParameters(host=host))
    return measure(request, Toy(TASKS), environments=lambda _: docker, may_stop=may_stop)


def test_a_pull_limit_costs_time_and_no_score(tmp_path: Path, lab: Lab, registry: Registry) -> None:
    digest = registry.add(lab.mark, small_root(), labels=lab.labels)
    registry.fail(429, kind="manifest", times=6, retry_after="1")  # an engine asks twice: 3 pulls
    ran = run(tmp_path, registry.image(lab.mark))
    assert ran.metrics.headline.value == 1.0
    assert set(ran.codes().values()) == {None}
    assert registry.count("manifest") <= 6 + 2  # refused three times, then pulled once for all
    images = {record.image for record in ran.records().values()}
    assert images == {f"{registry.host}/{lab.mark}@{digest}"}


def test_a_layer_that_breaks_off_costs_no_score(
    tmp_path: Path, lab: Lab, registry: Registry
) -> None:
    registry.add(lab.mark, {**small_root(), "ballast": os.urandom(500_000)}, labels=lab.labels)
    registry.fail(kind="blob", cut=True, times=1)
    assert run(tmp_path, registry.image(lab.mark)).metrics.headline.value == 1.0


def test_an_image_that_is_not_there_is_no_zero(
    tmp_path: Path, lab: Lab, registry: Registry
) -> None:
    ran = run(tmp_path, registry.image("missing"))
    assert ran.metrics.headline.value is None
    assert set(ran.codes().values()) == {Code.ENVIRONMENT_START.value}
    for record in ran.records().values():
        assert record.failure is not None
        assert "the registry has no such image" in record.failure.message
    assert registry.count("manifest") <= 2 * TASKS


def test_a_full_engine_stops_the_run_clearly(tmp_path: Path, lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, small_root(), labels=lab.labels)
    with engine_proxy() as proxy:
        proxy.fail("/images/create", "stream", text="write /layer: no space left on device")
        image = registry.image(lab.mark)
        ran = run(tmp_path, image, host=proxy.host, may_stop=True, at_once=1)
        pulls = sum("/images/create" in line for line in proxy.requests)
    assert pulls == 1  # neither tried again nor by the next task
    assert ran.metrics.headline.value is None
    assert ran.codes() == {"toy-1 #1": Code.ENVIRONMENT_DISK_FULL.value}
    assert "no space is left where the Docker engine stores images" in str(ran.failure)
