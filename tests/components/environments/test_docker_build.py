"""Images from Dockerfiles: each content built once, failures in one line, deadlines kept."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.requirements import Build, Requirements
from agentcompass.components.environments._docker import images as _docker_images
from agentcompass.components.environments._docker.build_context import (
    buildkit_problem,
    images_named,
)
from agentcompass.components.environments._docker.build_output import BuildOutput
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.images import Images, ObtainedImage
from tests.components.environments.docker_engine import IMAGE
from tests.components.environments.docker_images_rig import LABEL, Lab, lab, within
from tests.standins.engine_proxy import EngineProxy, engine_proxy
from tests.standins.registry import serving

assert lab  # a fixture

BUILDS = r"POST \S*/build\?"


@pytest.fixture
def proxy(lab: Lab) -> Iterator[EngineProxy]:
    with engine_proxy() as proxy:
        yield proxy


def built(proxy: EngineProxy) -> int:
    return sum("/build?" in line for line in proxy.requests)


def root(required: Requirements) -> Path:
    assert required.build is not None
    return Path(required.build.context)


def test_the_same_content_is_built_once(lab: Lab, proxy: EngineProxy) -> None:
    """By many at once, by other providers, from another place, and after its files were touched."""
    required = lab.context("FROM scratch\nCOPY a /a\n", a="1")
    images, others = Images(Engine(proxy.host)), [Images(Engine(proxy.host)) for _ in range(3)]

    async def all_at_once() -> list[ObtainedImage]:
        asks = [lab.obtain(one, required) for one in (*[images] * 16, *others)]
        return await asyncio.gather(*asks)

    found = {image.id for image in within(all_at_once)}
    assert len(found) == 1
    assert built(proxy) == 1
    (root(required) / "a").touch()
    copy = lab.context("FROM scratch\nCOPY a /a\n", a="1")
    for asked in (required, copy):
        assert within(lambda asked=asked: lab.obtain(images, asked)).id in found
    assert built(proxy) == 1


def test_other_content_is_another_image(lab: Lab) -> None:
    required = lab.context("FROM scratch\nCOPY . /\n", a="1")
    (root(required) / ".dockerignore").write_text("# left out\n*.log\n.dockerignore\n")
    images = Images(lab.engine)

    def now() -> str:
        return within(lambda: lab.obtain(images, required)).name

    names = [now()]
    (root(required) / "b.log").write_text("left out")
    assert now() == names[0]
    (root(required) / "a").write_text("2")
    names.append(now())
    (root(required) / "a").chmod(0o755)
    names.append(now())
    (root(required) / "link").symlink_to("a")
    names.append(now())
    (root(required) / "Dockerfile").write_text(f"FROM scratch\nLABEL {LABEL}={lab.mark} x=1\n")
    names.append(now())
    assert len(set(names)) == 5
    assert all(name.startswith("agentcompass/build:") for name in names)
    arguments = Images(lab.engine, build_arguments={"x": "1"})
    assert within(lambda: lab.obtain(arguments, required)).name not in names


def test_the_image_is_ours_by_label_and_known_by_its_id(lab: Lab) -> None:
    image = within(lambda: lab.obtain(Images(lab.engine), lab.context("FROM scratch\nENV A=1\n")))
    assert image.digest == image.id
    assert image.config["Labels"]["agentcompass.build"] == image.name.partition(":")[2]
    assert image.config["Env"][-1] == "A=1"


def test_a_failing_command_shows_its_last_words_in_one_line(lab: Lab) -> None:
    words = "for i in $(seq 50); do echo line $i; done; echo '\\033[31mno such package\\033[0m'"
    script = f"exec 2>&1; {words}"  # two streams arrive in any order
    required = lab.context(f"FROM {IMAGE}\nRUN {script}; exit 7\n")
    told = within(lambda: lab.refusal(Images(lab.engine), required))
    assert told.code is Code.ENVIRONMENT_START
    assert str(told).startswith(f"building {root(required)}: ")
    assert "non-zero code: 7; it said last: line 44 | " in str(told)
    assert str(told).endswith("line 50 | no such package")
    assert any("Step 3/" in line for line in lab.notes)


@pytest.mark.parametrize(
    ("dockerfile", "words"),
    [
        (f"FROM {IMAGE}\nNONSENSE x\n", "unknown instruction: NONSENSE"),
        (f"FROM {IMAGE}\nCOPY nothing /\n", "nothing"),
        (f"FROM {IMAGE}\nRUN --mount=type=cache,target=/x true\n", "BuildKit"),
        ("FROM Not/Valid\n", "FROM Not/Valid is not obtainable"),
    ],
)
def test_a_dockerfile_that_cannot_work_is_told_in_one_line(
    lab: Lab, proxy: EngineProxy, dockerfile: str, words: str
) -> None:
    told = within(lambda: lab.refusal(Images(Engine(proxy.host)), lab.context(dockerfile)))
    assert told.code is Code.ENVIRONMENT_START
    assert words in str(told)
    assert built(proxy) <= 1  # not tried again


def test_a_missing_folder_or_dockerfile_is_named(lab: Lab) -> None:
    for build, words in (
        (Build(context="/nonexistent/x"), "the build context /nonexistent/x is no folder"),
        (Build(context=str(lab.folder)), f"there is no Dockerfile {lab.folder}/Dockerfile"),
    ):
        required = Requirements(build=build)
        assert words in str(within(lambda asked=required: lab.refusal(Images(lab.engine), asked)))


def test_the_images_it_starts_from_are_pulled_with_patience_or_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_docker_images, "_FIRST_PAUSE_SECONDS", 0.1)
    with serving() as registry:
        registry.add(lab.mark, {"a": b"1"}, labels=lab.labels)
        registry.fail(429, kind="manifest", times=4)
        name = registry.image(lab.mark)
        required = lab.context(f"FROM {name} AS one\nFROM scratch\nCOPY --from=one /a /b\n")
        images = Images(lab.engine)
        assert within(lambda: lab.obtain(images, required)).id
        assert sum("limits pulls" in line for line in lab.notes) == 2
        missing = lab.context(f"FROM {registry.host}/missing:1\n")
        told = within(lambda: lab.refusal(images, missing))
        assert f"FROM {registry.host}/missing:1 is not obtainable: " in str(told)
        assert "no such image" in str(told)


def test_another_image_under_the_name_it_starts_from_is_built_upon(lab: Lab) -> None:
    with serving() as registry:
        name = registry.image(lab.mark)
        required = lab.context(f"FROM {name}\nCOPY a /b\n", a="1")
        images = Images(lab.engine, pull="missing")
        registry.add(lab.mark, {"a": b"old"}, labels=lab.labels)
        old = within(lambda: lab.obtain(images, required))
        registry.add(lab.mark, {"a": b"new"}, labels=lab.labels)
        assert within(lambda: lab.obtain(images, required)).id == old.id
        within(lambda: lab.obtain(Images(lab.engine, pull="always"), name))
        assert within(lambda: lab.obtain(images, required)).id != old.id


def test_the_deadline_ends_the_build_and_what_it_runs(lab: Lab) -> None:
    required = lab.context(f"FROM {IMAGE}\nRUN echo waiting; sleep 300\n")
    started = time.monotonic()
    short = required.over(build_timeout_seconds=6)
    told = within(lambda: lab.refusal(Images(lab.engine), short))
    assert time.monotonic() - started < 40
    assert told.code is Code.ENVIRONMENT_SETUP_TIMEOUT
    assert "took longer than 6 s" in str(told)
    assert str(told).endswith("it said last: waiting")
    assert_nothing_runs(lab)


def test_a_cancelled_build_ends_and_lets_the_next_begin(lab: Lab) -> None:
    required = lab.context(f"FROM {IMAGE}\nRUN sleep 300\n")
    images = Images(lab.engine)

    async def cancelled() -> None:
        async with asyncio.TaskGroup() as group:
            asks = [group.create_task(lab.obtain(images, required)) for _ in range(3)]
            while not lab.containers():
                await asyncio.sleep(0.1)
            for ask in asks:
                ask.cancel()

    within(cancelled)
    assert_nothing_runs(lab)
    again = required.over(build_timeout_seconds=2)
    assert "took longer" in str(within(lambda: lab.refusal(images, again)))


def test_a_lost_connection_is_tried_again_a_full_engine_is_not(
    lab: Lab, proxy: EngineProxy
) -> None:
    images = Images(Engine(proxy.host))
    proxy.fail(BUILDS, "cut", times=1)
    assert within(lambda: lab.obtain(images, lab.context("FROM scratch\nENV A=2\n"))).id
    assert built(proxy) == 2
    proxy.fail(BUILDS, "stream", text="write /var/lib/docker/tmp/x: no space left on device")
    told = within(lambda: lab.refusal(images, lab.context("FROM scratch\nENV A=3\n")))
    assert told.code is Code.ENVIRONMENT_DISK_FULL
    assert built(proxy) == 3


def test_a_full_file_system_of_its_own_is_the_build_s_fault(lab: Lab) -> None:
    required = lab.context(f"FROM {IMAGE}\nRUN dd if=/dev/zero of=/dev/full bs=1k count=1\n")
    told = within(lambda: lab.refusal(Images(lab.engine), required))
    assert told.code is Code.ENVIRONMENT_START
    assert "No space left on device" in str(told)


def test_a_dockerfile_may_lie_outside_of_its_context(lab: Lab) -> None:
    required = lab.context(f'FROM {IMAGE}\nCOPY . /c\nRUN test "$(ls -A /c)" = a\n', a="1")
    assert required.build is not None
    elsewhere = lab.folder / "elsewhere.dockerfile"
    (root(required) / "Dockerfile").rename(elsewhere)
    (root(required) / ".dockerignore").write_text(".dockerignore\n")
    for dockerfile in ("../elsewhere.dockerfile", str(elsewhere)):
        build = Build(context=required.build.context, dockerfile=dockerfile)
        asked = required.over(build=build)
        assert within(lambda asked=asked: lab.obtain(Images(lab.engine), asked)).id


def test_the_network_of_its_commands_can_be_chosen(lab: Lab) -> None:
    required = lab.context(f'FROM {IMAGE}\nRUN test "$(ls /sys/class/net)" = lo\n')
    assert within(lambda: lab.obtain(Images(lab.engine, build_network="none"), required)).id


def assert_nothing_runs(lab: Lab) -> None:
    end = time.monotonic() + 15
    while lab.containers():
        assert time.monotonic() < end, "a build's container is left"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("dockerfile", "names"),
    [
        ("FROM a:1", {"a:1": None}),
        (
            "# comment\n\nfrom a AS one\nFROM one\nFROM ONE as two\nCOPY --from=two /x /x",
            {"a": None},
        ),
        ("FROM scratch\nCOPY --from=b:2 /x /x\nCOPY --from=0 /y /y", {"b:2": None}),
        ("ARG V=3\nFROM a:${V}", {"a:3": None}),
        ("ARG V\nFROM a:${V:-4}", {"a:4": None}),
        ("ARG V\nFROM a:$V", {}),
        ("ARG GIVEN=9\nFROM a:$GIVEN", {"a:5": None}),
        ("FROM --platform=linux/arm64 a", {"a": "linux/arm64"}),
        ("FROM --platform=$BUILDPLATFORM a", {"a": None}),
        ("FROM \\\n  a", {"a": None}),
        ("", {}),
    ],
)
def test_a_dockerfile_tells_what_it_starts_from(
    dockerfile: str, names: dict[str, str | None]
) -> None:
    assert images_named(dockerfile, {"GIVEN": "5"}) == names


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("RUN --mount=type=cache,target=/x true", "RUN --mount"),
        ("COPY --from=x --chmod=755 a b", "COPY --chmod"),
        ("RUN <<EOF\necho x\nEOF", "RUN <<EOF"),
        ("RUN cat > /x <<'END'\ny\nEND", "RUN <<'END"),
        ("COPY --from=x --chown=1:1 a b", None),
        ("RUN cat <<< word", None),
        ("RUN echo $((1<<3)) --mount", None),
        ("CMD echo --mount <<EOF", None),
    ],
)
def test_what_needs_buildkit_is_known_before(line: str, needed: str | None) -> None:
    told = buildkit_problem(f"FROM x\n{line}\n")
    assert told is None if needed is None else needed in str(told)


def test_output_in_pieces_is_put_together_again() -> None:
    output = BuildOutput("x", lambda line: None)
    for piece in ("Step 1/2 : RUN x\n", "ha", "lf\n10%\r20%\r", "\x1b[91mred\x1b[0m\n", "open"):
        output.see({"stream": piece})
    assert output.tail() == "; it said last: half | 10% | 20% | red | open"
