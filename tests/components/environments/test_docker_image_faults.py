"""Pulls that are refused, fail, stay silent or are given up; from a registry on this machine."""

import asyncio
import os
import threading
import time

import pytest

from agentcompass.components.contracts.errors import Code
from agentcompass.components.environments._docker import images as _docker_images
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.images import Images, ObtainedImage
from tests.components.environments.docker_images_rig import (
    Lab,
    lab,
    questions_of_one_pull,
    registry,
    within,
)
from tests.standins.engine_proxy import engine_proxy
from tests.standins.registry import Registry

assert lab, registry  # fixtures


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_docker_images, "_FIRST_PAUSE_SECONDS", 0.1)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("manifest", {"status": 429, "times": 6, "retry_after": "1"}),
        ("manifest", {"status": 503, "times": 4}),
        ("blob", {"status": 429, "times": 3}),
        ("blob", {"cut": True, "times": 1}),
        ("manifest", {"cut": True, "times": 3}),
    ],
)
def test_a_busy_or_failing_registry_is_asked_again(
    lab: Lab, registry: Registry, kind: str, fault: dict[str, int | str]
) -> None:
    digest = registry.add(lab.mark, {"a": os.urandom(300_000)}, labels=lab.labels)
    registry.fail(kind=kind, **fault)
    got = within(lambda: lab.obtain(Images(lab.engine), registry.image(lab.mark)))
    assert got.digest.endswith(digest)
    assert all(failure.times == 0 for failure in registry.failures)
    if kind == "manifest" and fault.get("status") == 429:  # refused pulls are told
        waits = [line for line in lab.notes if "limits pulls" in line and "trying again" in line]
        assert len(waits) >= 3  # one or two questions per pull


def test_patience_ends(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    registry.fail(429, kind="manifest")
    images = Images(lab.engine, patience_seconds=0.5)
    told = within(lambda: lab.refusal(images, registry.image(lab.mark)))
    assert told.code is Code.ENVIRONMENT_START
    assert "limits pulls" in str(told)
    registry.heal()
    assert within(lambda: lab.obtain(images, registry.image(lab.mark))).id  # nothing remembered


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "docker login"), (403, "denies access"), (404, "no such image")],
)
def test_a_registry_that_says_no_is_not_asked_again(
    lab: Lab, registry: Registry, status: int, words: str
) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    registry.fail(status, kind="manifest")
    told = within(lambda: lab.refusal(Images(lab.engine), registry.image(lab.mark)))
    assert told.code is Code.ENVIRONMENT_START
    assert words in str(told)
    assert str(told).startswith(f"pulling image {registry.image(lab.mark)}: ")
    assert lab.notes == []  # no word of trying again


def test_a_registry_that_never_answers_holds_nobody_who_gives_up(
    lab: Lab, registry: Registry
) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    registry.fail(kind="manifest", seconds=1e9, times=1)
    name, images = registry.image(lab.mark), Images(lab.engine)

    async def give_up() -> float:
        asked = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await lab.obtain(images, name)
        took = time.monotonic() - asked
        for _ in range(50):  # the thread that read ends: its connection is cut
            if not any(thread.name == "docker-call" for thread in threading.enumerate()):
                return took
            await asyncio.sleep(0.1)
        raise AssertionError("a thread is left")

    assert within(give_up) < 5.0
    assert within(lambda: lab.obtain(images, name)).digest  # the lock is free, the engine too


def test_who_gives_up_takes_nothing_from_who_waits(lab: Lab, registry: Registry) -> None:
    once = questions_of_one_pull(lab, registry)
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    registry.fail(kind="manifest", seconds=1.5, times=1)
    name, images = registry.image(lab.mark), Images(lab.engine)

    async def one_of_two_gives_up() -> ObtainedImage:
        first = asyncio.create_task(lab.obtain(images, name))
        second = asyncio.create_task(lab.obtain(images, name))
        await asyncio.sleep(0.5)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert within(one_of_two_gives_up).digest
    assert registry.count("manifest") == once


def test_a_silent_pull_is_started_anew(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    registry.fail(kind="manifest", seconds=1e9, times=1)
    images = Images(lab.engine, silent_seconds=1.0)
    assert within(lambda: lab.obtain(images, registry.image(lab.mark))).digest
    assert any("trying again" in line for line in lab.notes)


def test_an_engine_that_goes_away_in_mid_pull_is_asked_again(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    with engine_proxy() as proxy:
        proxy.fail("/images/create", "cut", times=2)
        images = Images(Engine(proxy.host))
        assert within(lambda: lab.obtain(images, registry.image(lab.mark))).digest
    assert len([line for line in lab.notes if "connection to the Docker engine" in line]) == 2


def test_an_engine_without_space_ends_it_at_once(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    text = (
        "failed to register layer: Error processing tar file(exit status 1): write /big: no space "
        "left on device"
    )
    with engine_proxy() as proxy:
        proxy.fail("/images/create", "stream", text=text)
        told = within(lambda: lab.refusal(Images(Engine(proxy.host)), registry.image(lab.mark)))
        assert sum("/images/create" in line for line in proxy.requests) == 1
    assert told.code is Code.ENVIRONMENT_DISK_FULL
