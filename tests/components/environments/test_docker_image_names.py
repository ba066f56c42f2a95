"""What an image is called, and would be called in a record: without pulling or building it."""

import pytest

from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments._docker.images import Images
from agentcompass.components.environments._docker.images_names import (
    digest_of,
    pull_name,
    registry_of,
)
from tests.components.environments.docker_images_rig import Lab, lab, within
from tests.standins.registry import serving

assert lab  # a fixture


def test_one_that_is_not_here_is_not_known_and_not_fetched(lab: Lab) -> None:
    with serving() as registry:
        registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
        required = Requirements(image=registry.image(lab.mark))
        images = Images(lab.engine)
        assert within(lambda: images.names_now(required)) == frozenset()
        assert registry.requests == []
        obtained = within(lambda: lab.obtain(images, required))
        names = within(lambda: images.names_now(required))
    assert {obtained.digest, obtained.id} <= names
    assert obtained.digest.startswith(registry.host)


def test_a_build_is_known_once_its_present_content_was_built(lab: Lab) -> None:
    required = lab.context("FROM scratch\nCOPY a /a\n", a="1")
    images = Images(lab.engine)
    assert within(lambda: images.names_now(required)) == frozenset()
    first = within(lambda: lab.obtain(images, required))
    assert first.id in within(lambda: images.names_now(required))
    assert required.build is not None
    (lab.folder / required.build.context / "a").write_text("2")
    assert within(lambda: images.names_now(required)) == frozenset()
    second = within(lambda: lab.obtain(images, required))
    names = within(lambda: images.names_now(required))
    assert second.id in names
    assert first.id not in names


def test_without_an_image_there_is_nothing_to_know(lab: Lab) -> None:
    assert within(lambda: Images(lab.engine).names_now(Requirements())) == frozenset()


@pytest.mark.parametrize(
    ("name", "registry", "pulled"),
    [
        ("ubuntu", "docker.io", "ubuntu"),
        ("a/b:1", "docker.io", "a/b:1"),
        ("docker.io/a/b", "docker.io", "docker.io/a/b"),
        ("ghcr.io/a/b:1@sha256:12", "ghcr.io", "ghcr.io/a/b@sha256:12"),
        ("localhost/x", "localhost", "localhost/x"),
        ("127.0.0.1:5000/x@sha256:12", "127.0.0.1:5000", "127.0.0.1:5000/x@sha256:12"),
        ("sha256:" + "0" * 64, "docker.io", None),
    ],
)
def test_names_are_read_as_the_docker_command_reads_them(
    name: str, registry: str, pulled: str | None
) -> None:
    assert registry_of(name) == registry
    assert pull_name(name) == pulled


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("ubuntu:22.04", "ubuntu@sha256:1"),
        ("docker.io/library/ubuntu", "ubuntu@sha256:1"),
        ("mirror.example:5000/ubuntu:22.04", "mirror.example:5000/ubuntu@sha256:2"),
        ("ubuntu@sha256:3", "ubuntu@sha256:3"),
        ("else", "ubuntu@sha256:1"),
    ],
)
def test_the_digest_is_that_of_the_repository_asked_for(name: str, digest: str) -> None:
    known = ("ubuntu@sha256:1", "mirror.example:5000/ubuntu@sha256:2", "ubuntu@sha256:3")
    assert digest_of(name, known, "sha256:id") == digest
    assert digest_of(name, (), "sha256:id") == "sha256:id"
