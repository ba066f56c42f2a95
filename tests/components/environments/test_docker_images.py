"""Images by name: present, pulled once, room made for them; from a registry on this machine."""

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments._docker import images_space as _docker_images_space
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.images import Images, ObtainedImage
from agentcompass.components.environments._docker.images_machine import Machine
from agentcompass.components.environments._docker.images_progress import PullProgress
from tests.components.environments.docker_images_rig import (
    LABEL,
    Lab,
    lab,
    questions_of_one_pull,
    registry,
    within,
)
from tests.standins.registry import Registry, serving

assert lab, registry  # fixtures


def test_a_missing_image_is_pulled_and_known_by_the_digest_of_its_registry(
    lab: Lab, registry: Registry
) -> None:
    digest = registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    name = registry.image(lab.mark)
    images = Images(lab.engine)
    first = within(lambda: lab.obtain(images, name))
    assert first.digest == f"{registry.host}/{lab.mark}@{digest}"
    assert first.platform == "linux/amd64"
    assert first.config["Labels"] == lab.labels
    registry.requests.clear()
    assert within(lambda: lab.obtain(images, name)) == first
    assert registry.requests == []  # what is here is not asked for again


def test_a_moved_tag_is_another_digest_and_a_pinned_one_stays(lab: Lab, registry: Registry) -> None:
    old = registry.add(lab.mark, {"a": b"old"}, labels=lab.labels)
    new = registry.add(lab.mark, {"a": b"new"}, labels=lab.labels)
    name = registry.image(lab.mark)
    images = Images(lab.engine)
    assert within(lambda: lab.obtain(images, name)).digest.endswith(new)
    for pinned in (f"{registry.host}/{lab.mark}@{old}", f"{name}@{old}"):
        assert within(lambda asked=pinned: lab.obtain(images, asked)).digest == (
            f"{registry.host}/{lab.mark}@{old}"
        )
    assert within(lambda: lab.obtain(images, name)).digest.endswith(new)


def test_an_image_made_here_is_known_by_its_id(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    images = Images(lab.engine)
    image_id = within(lambda: lab.obtain(images, registry.image(lab.mark))).id
    made = lab.engine.client().api.create_container(image_id, ["x"], labels=lab.labels)
    copy = lab.engine.client().api.commit(
        made["Id"], f"test/{lab.mark}", "made", conf={"Labels": lab.labels}
    )
    obtained = within(lambda: lab.obtain(images, f"test/{lab.mark}:made"))
    assert obtained.digest == obtained.id == copy["Id"]
    assert within(lambda: lab.obtain(images, copy["Id"])).id == copy["Id"]


def test_many_at_once_pull_once(lab: Lab, registry: Registry) -> None:
    """By one provider, and by several that know nothing of each other."""
    once = questions_of_one_pull(lab, registry)
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    registry.fail(kind="blob", seconds=0.3, times=1)
    one, others = Images(lab.engine), [Images(Engine()) for _ in range(4)]

    async def all_at_once() -> list[ObtainedImage]:
        asks = [lab.obtain(images, registry.image(lab.mark)) for images in (*[one] * 8, *others)]
        return await asyncio.gather(*asks)

    assert len({image.id for image in within(all_at_once)}) == 1
    assert registry.count("manifest") == once


def test_two_programs_pull_once(lab: Lab, registry: Registry) -> None:
    once = questions_of_one_pull(lab, registry)
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    registry.fail(kind="manifest", seconds=2.0, times=1)
    program = (
        "import asyncio, sys\n"
        "from agentcompass.components.contracts.requirements import Requirements\n"
        "from agentcompass.components.environments._docker.engine import Engine\n"
        "from agentcompass.components.environments._docker.images import Images\n"
        "ask = Images(Engine()).obtain(Requirements(image=sys.argv[1]), print)\n"
        "print(asyncio.run(ask).digest)\n"
    )
    command = [sys.executable, "-c", program, registry.image(lab.mark)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    told = {one.communicate(timeout=60)[0].strip() for one in running}
    assert len(told) == 1
    assert b"@sha256:" in told.pop()
    assert registry.count("manifest") == once


def test_a_private_registry_gets_the_login_of_the_docker_command(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(credentials=("me", "secret")) as registry:
        registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
        name = registry.image(lab.mark)
        told = within(lambda: lab.refusal(Images(lab.engine), name))
        assert "docker login" in str(told)
        login = {"auth": base64.b64encode(b"me:secret").decode()}
        settings = {"auths": {registry.host: login}}
        (lab.folder / "config.json").write_text(json.dumps(settings))
        monkeypatch.setenv("DOCKER_CONFIG", str(lab.folder))
        assert within(lambda: lab.obtain(Images(Engine()), name)).digest


def test_nothing_is_pulled_onto_a_disk_that_is_all_but_full(
    lab: Lab, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    images = Images(lab.engine)
    if not within(images.machine).here:
        pytest.skip("the engine's disk cannot be seen from here")
    monkeypatch.setattr(_docker_images_space, "FULL_MB", 2**60)
    told = within(lambda: lab.refusal(images, registry.image(lab.mark)))
    assert told.code is Code.ENVIRONMENT_DISK_FULL
    assert registry.requests == []


def test_room_is_made_of_what_this_run_pulled_and_nobody_uses(
    lab: Lab, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of use; what was here before, is in use, or was just given out stays."""
    for name in ("before", "used", "old", "new", "next"):
        registry.add(f"{lab.mark}-{name}", {"a": name.encode()}, labels=lab.labels)

    def image(name: str) -> str:
        return registry.image(f"{lab.mark}-{name}")

    def here() -> set[str]:
        listed = lab.engine.client().api.images(filters={"label": f"{LABEL}={lab.mark}"})
        tags = {tag for one in listed for tag in one["RepoTags"]}
        return {name for name in ("before", "used", "old", "new", "next") if image(name) in tags}

    within(lambda: lab.obtain(Images(lab.engine), image("before")))
    images = Images(lab.engine, min_free_mb=2**50)
    if not within(images.machine).here:
        pytest.skip("the engine's disk cannot be seen from here")
    for name in ("before", "used", "old", "new", "old"):
        within(lambda name=name: lab.obtain(images, image(name)))
    assert here() == {"before", "used", "old", "new"}
    lab.engine.client().api.create_container(image("used"), ["x"], labels=lab.labels)
    monkeypatch.setattr(_docker_images_space, "_JUST_USED_SECONDS", 0.0)
    free = iter([1, 1, 1, 2**60])  # enough once one is gone
    monkeypatch.setattr(Machine, "free_mb", lambda machine: next(free))
    within(lambda: lab.obtain(images, image("next")))
    assert here() == {"before", "used", "old", "next"}
    monkeypatch.setattr(Machine, "free_mb", lambda machine: 1_000)
    within(lambda: lab.obtain(images, image("new")))
    assert here() == {"before", "used", "new"}


def test_the_policy_never_pulls_nothing(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    name, images = registry.image(lab.mark), Images(lab.engine, pull="never")
    assert f"docker pull {name}" in str(within(lambda: lab.refusal(images, name)))
    assert registry.requests == []
    within(lambda: lab.obtain(Images(lab.engine), name))
    assert within(lambda: lab.obtain(images, name)).digest


def test_the_policy_always_asks_once_in_a_run(lab: Lab, registry: Registry) -> None:
    registry.add(lab.mark, {"a": b"old"}, labels=lab.labels)
    name = registry.image(lab.mark)
    within(lambda: lab.obtain(Images(lab.engine), name))
    new = registry.add(lab.mark, {"a": b"new"}, labels=lab.labels)
    images = Images(lab.engine, pull="always")
    assert within(lambda: lab.obtain(images, name)).digest.endswith(new)
    registry.requests.clear()
    assert within(lambda: lab.obtain(images, name)).digest.endswith(new)
    assert registry.requests == []


def test_an_image_for_another_processor_is_refused(lab: Lab, registry: Registry) -> None:
    images = Images(lab.engine)
    other = "arm64" if within(images.machine).architecture != "arm64" else "amd64"
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels, architecture=other)
    told = str(within(lambda: lab.refusal(images, registry.image(lab.mark))))
    assert f"is for linux/{other}, but the Docker engine runs linux/" in told
    asked = Requirements(image=registry.image(lab.mark), platform="linux/s390x")
    told = str(within(lambda: lab.refusal(images, asked)))
    assert f"it is for linux/{other}, not for linux/s390x" in told


def test_a_task_without_an_image_is_told_how_to_give_one(lab: Lab) -> None:
    assert "setup.image" in str(within(lambda: lab.refusal(Images(lab.engine), Requirements())))


def test_an_unknown_id_is_not_asked_of_a_registry(lab: Lab) -> None:
    told = within(lambda: lab.refusal(Images(lab.engine), "sha256:" + "0" * 64))
    assert "an id cannot be pulled" in str(told)


def test_locks_need_no_home_and_no_temporary_files(
    lab: Lab, registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert within(lambda: lab.obtain(Images(lab.engine), registry.image(lab.mark))).digest


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    progress = PullProgress("x", notes.append)
    for layer, current in (("1", 30_000_000), ("2", 10_000_000)):
        detail = {"current": current, "total": 50_000_000}
        progress.see({"id": layer, "status": "Downloading", "progressDetail": detail})
    progress.tell()
    assert notes == []
    monkeypatch.setattr(progress, "_next", 0.0)
    progress.tell()
    progress.tell()
    assert notes == ["pulling image x: 40 of 100 MB, downloading"]
