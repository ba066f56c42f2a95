"""Patches as bytes: the base with the patch is the agent's tree, whatever it did to git."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentcompass.components.benchmarks._git_repository import (
    Commit,
    File,
    apply_patch,
    make_repository,
    take_patch,
)
from agentcompass.components.benchmarks._patch import Patch
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.sandboxes import path_with, sandbox

BASE = (
    Commit(
        "First",
        1_700_000_000,
        {
            "crlf.txt": File(content=b"one\r\ntwo\r\nthree\r\n"),
            "no newline.txt": File(content=b"one\ntwo"),
            "latin.txt": File(content=b"caf\xe9\n"),
            "run.sh": File(content=b"#!/bin/sh\necho hi\n"),
            "image.png": File(content=bytes(range(256)) * 20),
            "old name é.txt": File(content=b"moved\n" * 20),
            "gone.txt": File(content=b"x\n"),
            "early.txt": File(content=b"x\n"),
        },
    ),
    Commit(
        "Second", 1_700_000_100, {".gitattributes": File(content=b"* text=auto\n")}, ["early.txt"]
    ),
)
EDIT = r"""
set -e
printf 'one\r\nTWO\r\nthree\r\n' >crlf.txt
printf 'one\nTWO' >'no newline.txt'
printf 'th\351\n' >latin.txt
chmod +x run.sh
mkdir -p 'new dir'
mv 'old name é.txt' 'new dir/nëw "name".txt'
rm gone.txt
printf 'X' | dd of=image.png bs=1 seek=7 conv=notrunc 2>/dev/null
head -c 3000000 /dev/urandom >built.bin
ln -s crlf.txt link
"""
TREE = (
    "find . -name .git -prune -o -type f -print0 | sort -z | xargs -0 sha1sum;"
    "find . -name .git -prune -o \\( -type f -o -type l \\) -printf '%p %m %l\\n' | LC_ALL=C sort"
)


async def tree(env: Environment) -> str:
    result = await env.exec(TREE)
    assert result.ok, result.stderr
    return result.stdout


def round_trip(work: str) -> tuple[Patch, str, str]:
    """(patch, the agent's tree, the tree of a new base with the patch)."""

    async def run() -> tuple[Patch, str, str]:
        async with sandbox() as env:
            await make_repository(env, BASE)
            result = await env.exec(work)
            assert result.ok, result.stderr
            patch = await take_patch(env, BASE)
            left = await tree(env)
        async with sandbox() as env:
            await make_repository(env, BASE)
            if patch.content:
                await apply_patch(env, patch.content)
            return patch, left, await tree(env)

    return asyncio.run(run())


def with_repository(work: Callable[[Environment], Awaitable[str]]) -> str:
    async def run() -> str:
        async with sandbox() as env:
            await make_repository(env, BASE)
            return await work(env)

    return asyncio.run(run())


def test_the_repository_is_the_same_every_time_and_holds_nothing_else() -> None:
    async def look(env: Environment) -> str:
        result = await env.exec(
            "git log --all --format='%H %an %at %s'; git status --short --ignored;"
            "git fsck --unreachable --no-reflogs 2>&1; git tag; git branch -a; git stash list;"
            "git reflog; git remote"
        )
        return result.stdout

    first, second = with_repository(look), with_repository(look)
    assert first == second
    lines = first.splitlines()
    assert [line.partition(" ")[2] for line in lines[:2]] == [
        "Robin Example 1700000100 Second",
        "Robin Example 1700000000 First",
    ]
    assert lines[2:] == ["* main"]


@pytest.mark.parametrize(
    "then",
    [
        "",
        "git add -A",
        "git add -A && git commit -qm work",
        "git add crlf.txt && git commit -qm part && git add image.png",
        "git checkout -qb other && git add -A && git commit -qm work && git branch -f main HEAD",
        "git config core.autocrlf true && git config core.fileMode false",
        "git config filter.x.clean 'sed s/./X/g' && echo '* filter=x' >.git/info/attributes",
        "git config diff.external false; git config color.ui always; git config diff.noprefix 1",
        "mkdir -p .git/hooks && printf '#!/bin/sh\\nexit 1\\n' >.git/hooks/pre-commit",
        "git update-index --assume-unchanged crlf.txt",
        "git rm -q --cached -r . && git add -A",
        "rm -rf .git",
    ],
)
def test_applying_the_patch_gives_the_identical_tree(then: str) -> None:
    patch, left, graded = round_trip(f"{EDIT}\n{then}\n")
    assert graded == left
    assert patch.left_out == ()
    assert "built.bin" in graded
    assert "run.sh 755" in graded


def test_no_work_is_an_empty_patch() -> None:
    for work in ("true", "git commit -q --allow-empty -m nothing", "touch crlf.txt; git status"):
        patch, left, graded = round_trip(work)
        assert patch == Patch(content=b"")
        assert left == graded


def test_files_of_the_setup_and_of_harnesses_are_not_in_the_patch() -> None:
    async def run() -> Patch:
        async with sandbox() as env:
            await env.write_file("build/out [1].log", b"set-up\n")
            await make_repository(env, BASE)
            await env.exec(
                "echo more >>'build/out [1].log'; mkdir -p __pycache__ .claude pkg/__pycache__;"
                "touch __pycache__/a.pyc pkg/__pycache__/b.pyc .claude/x .aider.chat;"
                "echo y >mine.txt"
            )
            return await take_patch(env, BASE)

    content = asyncio.run(run()).content
    assert content.count(b"diff --git") == 1
    assert b"b/mine.txt" in content


def test_what_cannot_be_in_a_patch_is_left_out_by_name() -> None:
    patch, _, graded = round_trip(
        "truncate -s 20M huge.bin; mkfifo pipe; mkdir -p sub/deep; cd sub; git init -q .;"
        "echo x >deep/f; cd ..; echo kept >kept.txt"
    )
    assert patch.left_out == (
        "sub: a git repository of its own",
        "huge.bin: over 16384 KiB",
    )
    assert "kept.txt" in graded
    assert "huge.bin" not in graded


@pytest.mark.timeout(60)
def test_pipes_and_devices_in_the_place_of_gits_files_stop_nothing() -> None:
    patch, _, graded = round_trip(
        "mkdir -p sub; rm -f .git/info/exclude; mkfifo .gitignore sub/.gitattributes"
        " .git/info/exclude; ln -s /dev/zero .gitmodules; echo '*.no' >real-ignore;"
        "ln -s ../real-ignore sub/.gitignore; echo kept >sub/kept.txt"
    )
    assert {line.partition(":")[0] for line in patch.left_out} == {
        ".gitignore",
        "sub/.gitattributes",
        ".gitmodules",
    }
    assert "kept.txt" in graded
    assert "sub/.gitignore" in graded


def test_the_workdir_is_as_before_after_the_patch_was_taken() -> None:
    async def look(env: Environment) -> str:
        await env.exec(EDIT)
        before = (await env.exec("ls -A; git status --short")).stdout
        await take_patch(env, BASE)
        return before + "|" + (await env.exec("ls -A; git status --short")).stdout

    before, _, after = with_repository(look).partition("|")
    assert before == after


def test_a_machine_without_git_is_told_plainly(tmp_path: Path) -> None:
    async def run() -> None:
        async with sandbox(path_with(tmp_path / "bin", "sh", "sed", "mkdir", "rm")) as env:
            with pytest.raises(AgentCompassError, match="needs git") as failed:
                await make_repository(env, BASE)
            assert failed.value.code is Code.ENVIRONMENT_SETUP
            with pytest.raises(AgentCompassError, match="needs git") as failed:
                await take_patch(env, BASE)
            assert failed.value.code is Code.ARTIFACT_FAILED

    asyncio.run(run())
