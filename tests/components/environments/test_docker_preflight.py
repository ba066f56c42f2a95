"""What stands in the way of these sandboxes, told at once, in few lines, in little time."""

import logging
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentcompass.components.contracts.requirements import Build, Requirements, Resources
from agentcompass.components.environments._docker import preflight as _docker_preflight
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.images import Images
from agentcompass.components.environments._docker.images_machine import Machine, _options_of
from agentcompass.components.environments._docker.preflight import problems
from tests.components.environments.docker_engine import IMAGE
from tests.components.environments.docker_images_rig import Lab, lab, within
from tests.standins.engine_proxy import EngineProxy, engine_proxy
from tests.standins.registry import Registry, serving

assert lab  # a fixture


@pytest.fixture
def registry(lab: Lab) -> Iterator[Registry]:
    with serving() as registry:
        yield registry


@pytest.fixture
def proxy(lab: Lab) -> Iterator[EngineProxy]:
    with engine_proxy() as proxy:
        yield proxy


def found(
    engine: Engine, requirements: Sequence[Requirements], images: Images | None = None
) -> list[str]:
    images = images or Images(engine)
    lines = within(lambda: problems(engine, images, requirements))
    assert all("\n" not in line for line in lines)
    return lines


def named(*names: str) -> list[Requirements]:
    return [Requirements(image=name) for name in names]


def test_nothing_stands_in_the_way(lab: Lab, registry: Registry) -> None:
    """Present, pullable, built from either."""
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    here = f"linux/{within(Images(lab.engine).machine).architecture}"
    requirements = [
        *named(IMAGE, registry.image(lab.mark)),
        Requirements(image=IMAGE, platform=here),
        lab.context(f"FROM {IMAGE}\n"),
        lab.context(f"FROM {registry.image(lab.mark)}\n"),
        Requirements(image=IMAGE, resources=Resources(cpus=1, memory_mb=64)),
    ]
    assert found(lab.engine, requirements) == []
    assert registry.count("blob") <= 1  # asked about, not pulled
    assert within(lambda: Images(lab.engine).present(registry.image(lab.mark))) is None


def test_everything_that_is_wrong_is_told_at_once(lab: Lab, registry: Registry) -> None:
    gone = registry.image("gone")
    requirements = [
        *named(gone, gone, gone),
        Requirements(),
        Requirements(build=Build(context="/nonexistent/x")),
        lab.context(f"FROM {registry.image('gone-base')}\n"),
        *named("sha256:" + "0" * 64),
        Requirements(image=IMAGE, resources=Resources(cpus=10_000, memory_mb=10**9)),
    ]
    lines = found(lab.engine, requirements)
    for words in (
        f"image {gone} (needed by 3 tasks): the registry has no such image",
        "no image is named (needed by 1 task); give one as setup.image",
        "the build context /nonexistent/x is no folder here (needed by 1 task)",
        f"image {registry.image('gone-base')} (needed by 1 task): the registry has no such image",
        "no image of this id",
        "resources.cpus: 10000 is more than",
        "resources.memory_mb: 1000000000 is more than",
    ):
        assert len([line for line in lines if words in line]) == 1, words
    assert len(lines) == 7


def test_an_image_for_another_processor_is_told_before_any_task(
    lab: Lab, registry: Registry
) -> None:
    """C59. In the registry, and when it is here already."""
    here = within(Images(lab.engine).machine)
    other = "arm64" if here.architecture != "arm64" else "amd64"
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels, architecture=other)
    name = registry.image(lab.mark)
    expected = f"image {name} (needed by 2 tasks): it is for linux/{other}, but the Docker engine"
    for _ in ("absent", "present"):
        (line,) = found(lab.engine, named(name, name))
        assert line.startswith(expected)
        lab.engine.client().api.pull(name)


def test_500_images_that_are_here_take_seconds(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    api = lab.engine.client().api
    api.pull(registry.image(lab.mark))
    names = [f"test/{lab.mark}:{number}" for number in range(500)]
    for name in names:
        api.tag(registry.image(lab.mark), *name.split(":"))
    started = time.monotonic()
    assert found(lab.engine, named(*names)) == []
    assert time.monotonic() - started < 15  # 0.6 s on an idle machine


def test_a_registry_out_of_reach_is_one_line_for_500_images(lab: Lab) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{free.getsockname()[1]}"
    names = [f"{dead}/{secrets.token_hex(4)}" for _ in range(500)]
    (line,) = found(lab.engine, named(*names))
    assert line.startswith(f"registry {dead}: the Docker engine cannot reach the registry")
    assert f"needed by 500 tasks: {names[0]}, {names[1]}, {names[2]} and 497 more" in line


def test_a_registry_that_never_answers_is_given_up(
    lab: Lab, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_docker_preflight, "REGISTRY_SECONDS", 1.0)
    registry.fail(seconds=1e9)
    started = time.monotonic()
    (line,) = found(lab.engine, named(*(registry.image(f"x{n}") for n in range(500))))
    assert f"registry {registry.host}: no answer within 1 seconds" in line
    assert time.monotonic() - started < 15


def test_the_whole_budget_is_small() -> None:
    assert _docker_preflight.ENGINE_SECONDS <= 10
    assert _docker_preflight.REGISTRY_SECONDS <= 15


def test_what_cannot_be_asked_now_is_a_warning(
    lab: Lab, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    """A registry that limits requests, or has a bad moment, serves the pulls later."""
    for status, words in ((429, "limits requests"), (503, "registry is failing")):
        registry.heal()
        registry.fail(status, kind="manifest")
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert found(lab.engine, named(*(registry.image(f"x{n}") for n in range(40)))) == []
        assert words in caplog.text


def test_the_policy_never_asks_no_registry(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"1"})
    images = Images(lab.engine, pull="never")
    (line,) = found(lab.engine, named(registry.image(lab.mark)), images)
    assert f"docker pull {registry.image(lab.mark)} first" in line
    assert registry.requests == []


def test_a_built_image_needs_no_base_any_more(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    required = lab.context(f"FROM {registry.image(lab.mark)}\nENV A=1\n")
    within(lambda: lab.obtain(Images(lab.engine), required))
    lab.engine.client().api.remove_image(registry.image(lab.mark))
    registry.fail(404)
    assert found(lab.engine, [required]) == []
    assert within(lambda: lab.obtain(Images(lab.engine), required)).id


@pytest.mark.parametrize(
    ("host", "words"),
    [("unix:///nonexistent/docker.sock", "cannot be reached"), ("tcp://127.0.0.1:1", "start it")],
)
def test_no_engine_is_one_line(host: str, words: str) -> None:
    (line,) = found(Engine(host), named("x", "y"))
    assert words in line


def test_an_engine_that_hangs_is_one_line(
    proxy: EngineProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_docker_preflight, "ENGINE_SECONDS", 0.5)
    proxy.fail("/info", "hang")
    assert found(Engine(proxy.host), named("x")) == [
        "the Docker engine did not answer within 0.5 seconds"
    ]


MACHINE = Machine(
    engine_id="x",
    system="linux",
    architecture="amd64",
    cpus=4,
    memory_mb=8_000,
    data_root="/",
    driver="overlay2",
    backing="extfs",
    runtimes=frozenset({"runc"}),
    devices=(),
    here=False,
)


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        ({}, False),
        ({"backing": "xfs"}, True),  # elsewhere: cannot be ruled out
        ({"driver": "btrfs"}, True),
        ({"driver": "vfs"}, False),
    ],
)
def test_which_engines_limit_a_disk(changes: dict[str, str], limits: bool) -> None:
    assert replace(MACHINE, **changes).limits_disk() is limits


def test_the_mount_of_a_folder_is_the_deepest_and_last() -> None:
    mounts = [
        "/dev/a / ext4 rw 0 0",
        "/dev/b /var/lib xfs rw,prjquota 0 0",
        "/dev/c /var/l x y 0 0",
    ]
    assert _options_of(Path("/var/lib/docker"), mounts) == "rw,prjquota"
    assert _options_of(Path("/home"), mounts) == "rw"


@pytest.mark.parametrize(
    ("wanted", "runs", "native"),
    [
        ("linux/amd64", True, True),
        ("linux/x86_64", True, True),
        ("amd64", True, True),
        ("linux/386", True, True),
        ("linux/arm64/v8", True, False),  # an engine elsewhere may emulate
        ("windows/amd64", False, False),
    ],
)
def test_what_a_machine_runs(wanted: str, runs: bool, native: bool) -> None:
    assert MACHINE.runs(wanted) is runs
    assert MACHINE.native(wanted) is native


def test_gpus_are_ruled_out_only_where_that_is_sure() -> None:
    assert MACHINE.has_gpu()
    here = replace(MACHINE, here=True)
    assert replace(here, runtimes=frozenset({"nvidia"})).has_gpu()
    assert replace(here, devices=("nvidia.com/gpu=0",)).has_gpu()
