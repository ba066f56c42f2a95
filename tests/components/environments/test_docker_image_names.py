"""What an image would be called in a record is known without pulling or building it."""

from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments._docker.images import Images
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
