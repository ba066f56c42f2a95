"""C24: a patch is bytes; what the agent left comes back in a fresh checkout, mode by mode."""

import asyncio
from pathlib import Path

import pytest

from agentcompass.components.benchmarks._swebench.snapshot import apply_patch
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.sandboxes import sandbox
from tests.components.benchmarks.swebench_shapes import FIX, Shapes, shown
from tests.conformance.benchmark import Tried

FILES = {
    "crlf.txt": b"one\r\ntwo\r\nthree\r\n",
    "converted.bat": b"echo one\necho two\n",
    "no_end.txt": b"no end of line",
    "latin.txt": "caf\xe9\n".encode("latin-1"),
    "script.sh": b"#!/bin/sh\necho hello\n",
    "picture.png": bytes(range(256)) * 8,
    "old name.txt": b"moved\n" * 20,
    "gone.txt": b"gone\n",
    ".gitattributes": b"*.bat eol=crlf\n",
}
WORK = """\
sed -i 's/two/2/' crlf.txt converted.bat
printf ' at all' >>no_end.txt
printf '\\351\\n' >>latin.txt
chmod +x script.sh
printf '\\0\\1\\2' >>picture.png
ln -s crlf.txt link
mkdir -p sub && mv 'old name.txt' 'sub/n\u00e4w name.txt'
rm gone.txt
head -c 3145728 /dev/urandom >built.bin
git add built.bin; git -c user.name=R -c user.email=r@example.org commit -qm half
mkdir -p deep/er && touch deep/er/empty
"""
STATE = """\
git init -q ../scratch.git --bare 2>/dev/null
printf '* -text -eol -ident -filter -working-tree-encoding\\n' >../scratch.git/info/attributes
printf '%s\\n' '.git' '.agentcompass*' __pycache__ >../scratch.git/info/exclude
GIT_DIR=../scratch.git GIT_WORK_TREE=. git -c core.autocrlf=false add -A .
GIT_DIR=../scratch.git git ls-files -s
"""


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Shapes:
    return Shapes(tmp_path_factory.mktemp("bytes"), files=FILES)


def test_the_tree_comes_back_and_the_fix_counts(shapes: Shapes) -> None:
    left = ""

    async def act(env: Environment) -> None:
        nonlocal left
        done = await env.exec(FIX + WORK + STATE)
        assert done.ok, done.stderr
        left = done.stdout

    tried = shapes.worked(act)
    assert tried.verdict.correct is True, shown(tried)
    assert _rebuilt(shapes, tried) == left
    for name in ("crlf.txt", "converted.bat", "latin.txt", "script.sh", "picture.png", "link"):
        assert name in left
    assert "100755" in left
    assert "120000" in left
    assert [code for code, _ in tried.desk.notes] == []  # 3 MB are not too much


def _rebuilt(shapes: Shapes, tried: Tried) -> str:
    async def rebuild() -> str:
        async with sandbox() as env:
            await shapes.benchmark.prepare(shapes.sample.task, env)
            [artifact] = tried.submission.artifacts
            assert await apply_patch(env, tried.desk.read(artifact)) == ""
            return (await env.exec(STATE)).stdout

    return asyncio.run(rebuild())


def test_untouched_converted_files_are_no_change(shapes: Shapes) -> None:
    tried = shapes.worked("git status --short")
    [artifact] = tried.submission.artifacts
    assert tried.desk.read(artifact) == b""
    assert tried.verdict.correct is False


def test_what_is_too_large_is_left_out_by_name(shapes: Shapes) -> None:
    tried = shapes.worked(
        FIX + "head -c 20000000 /dev/zero >huge.bin; git init -q vendored; touch vendored/x"
    )
    assert tried.verdict.correct is True, shown(tried)
    assert {code for code, _ in tried.desk.notes} == {Code.ARTIFACT_LIMIT}
    assert sorted(text.partition(":")[0] for _, text in tried.desk.notes) == [
        "huge.bin",
        "vendored",
    ]


@pytest.mark.timeout(120)
def test_pipes_and_devices_in_the_place_of_gits_files_stop_nothing(shapes: Shapes) -> None:
    tried = shapes.worked(
        FIX + "set -e; rm -rf .gitattributes .gitignore .git/info/exclude;"
        "mkfifo .gitignore .git/info/exclude; ln -s /proc/kmsg .gitattributes"
    )
    assert tried.verdict.correct is True, shown(tried)
    assert sorted(text for _, text in tried.desk.notes) == [
        ".gitattributes: neither a file nor a folder",
        ".gitignore: neither a file nor a folder",
    ]


def test_a_patch_that_does_not_apply_says_so(shapes: Shapes, tmp_path: Path) -> None:
    async def refused() -> str:
        async with sandbox() as env:
            await shapes.benchmark.prepare(shapes.sample.task, env)
            patch = shapes.instance.patch.replace("width + height", "width - height").encode()
            return await apply_patch(env, patch)

    assert "patch does not apply" in asyncio.run(refused())
