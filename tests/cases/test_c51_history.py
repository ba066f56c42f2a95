"""C51: the prepared repository holds nothing that was made after its base commit."""

import asyncio
from pathlib import Path

import pytest

from agentcompass.components.benchmarks._swebench.scrubbing import check_scrubbed
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.sandboxes import sandbox
from tests.components.benchmarks.swebench_shapes import Shapes

SECRET = "zq_the_fix_zq"
POISON = f"""\
set -e
export GIT_AUTHOR_DATE='2024-02-01T00:00:00Z' GIT_COMMITTER_DATE='2024-02-01T00:00:00Z'
git config user.name Robin; git config user.email robin@example.org
base=$(git rev-parse HEAD)
commit() {{ echo "{SECRET} $1" >fix.txt; git add fix.txt; git commit -qm "{SECRET} $1"; }}
back() {{ git reset -q --hard $base; }}

commit tag; git tag -a future -m '{SECRET}'; git tag light; back
commit branch; git branch feature; back
commit reflog; back
commit packed; git branch packed; git repack -a -d -q; git branch -q -D packed; back
loose=$(echo '{SECRET} loose' | git hash-object -w --stdin)
commit stash; git reset -q --soft HEAD~1; git stash -q; back
commit replaced; git replace $base HEAD; back
commit fetched; git rev-parse HEAD >.git/FETCH_HEAD; cp .git/FETCH_HEAD .git/ORIG_HEAD; back
git remote set-url origin https://example.org/{SECRET}.git
git update-ref refs/remotes/origin/main feature
git config branch.main.remote origin; git config branch.main.merge refs/heads/main
git notes add -f -m '{SECRET} note' $base

git init -q --bare ../lender.git
git push -q ../lender.git feature:refs/heads/main
blob=$(echo '{SECRET} lent' | git --git-dir=../lender.git hash-object -w --stdin)
echo "$(cd .. && pwd)/lender.git/objects" >>.git/objects/info/alternates

git worktree add -q ../other feature
mkdir -p part; git init -q part
(cd part; git config user.name R; git config user.email r@example.org
 echo '{SECRET} part' >x; git add x; git commit -qm '{SECRET} part'; git rm -q x; git commit -qm y)
mkdir -p .git/modules/sub; cp -r part/.git/objects .git/modules/sub/
echo '{SECRET}' >shapes/__init__.py.orig
mkdir -p ~/.cache/pip/wheels; echo '{SECRET}' >~/.cache/pip/wheels/shapes.whl
"""
LOOK = """\
cd "$1"
git log --all --format=%B%d; git fsck --unreachable --no-reflogs 2>&1
git cat-file --batch-all-objects --batch --buffer; git reflog; git stash list; git remote -v
git for-each-ref; git config --list --local; git worktree list; git notes list
grep -r . .git ~/.cache 2>/dev/null; find . -name '*.orig' -exec cat {} +
"""


@pytest.fixture
def shapes(tmp_path: Path) -> Shapes:
    return Shapes(tmp_path, preparation="prebaked")


async def _with_image(shapes: Shapes, env: Environment) -> None:
    """The repository as a published image would hold it: all of it, and more."""
    mirror = shapes.folder / "data/mirrors/example__shapes"
    done = await env.exec(f"git clone -q --no-hardlinks {mirror} . && git reset -q --hard v1.0~1")
    assert done.ok, done.stderr


def test_no_trace_of_the_future_is_left(shapes: Shapes) -> None:
    async def prepared() -> tuple[str, str, str]:
        async with sandbox() as env:
            await _with_image(shapes, env)
            poisoned = await env.exec(POISON)
            assert poisoned.ok, poisoned.stderr
            before = await env.exec(["sh", "-c", LOOK, "sh", "."])
            await shapes.benchmark.prepare(shapes.sample.task, env)
            after = await env.exec(["sh", "-c", LOOK, "sh", "."])
            state = await env.exec("git status --short; git log --oneline; git tag; git branch")
            return before.stdout, after.stdout + after.stderr, state.stdout

    before, after, state = asyncio.run(prepared())
    for word in ("tag", "branch", "packed", "loose", "stash", "fetched", "lent", "note"):
        assert f"{SECRET} {word}" in before, word
    assert SECRET not in after
    assert "width * height" not in after  # the upstream fix itself
    assert "example.org/" not in after
    assert "v0.1" in state  # a tag on the way to the base: versions are made of it
    assert "v1.0" not in state
    assert state.splitlines()[1:3] == [
        line for line in state.splitlines()[1:3] if line.endswith(("Shapes", "Begin"))
    ], state


@pytest.mark.parametrize(
    ("poison", "problem"),
    [
        (
            "git fetch -q $mirror v1.0; rm .git/FETCH_HEAD; git tag late v1.0 || "
            "git tag late $(git -C $mirror rev-parse v1.0)",
            "outside the base's past",
        ),
        ("echo loose | git hash-object -w --stdin", "unreachable blob"),
        ("git remote add origin $mirror", "a remote"),
        (
            "git commit -q --allow-empty -m one && git commit -q --allow-empty -m two",
            "not the base",
        ),
        ("mkdir sub && git -C sub init -q", "a repository of its own"),
        ("echo $mirror/.git/objects >.git/objects/info/alternates", "alternates"),
    ],
)
def test_what_is_left_fails_the_set_up(shapes: Shapes, poison: str, problem: str) -> None:
    async def check() -> None:
        async with sandbox() as env:
            await _with_image(shapes, env)
            await shapes.benchmark.prepare(shapes.sample.task, env)
            mirror = shapes.folder / "data/mirrors/example__shapes"
            identity = "git config user.name R; git config user.email r@example.org\n"
            done = await env.exec(f"mirror={mirror}\n{identity}{poison}")
            assert done.ok, done.stderr
            await check_scrubbed(env, shapes.instance.base_commit)

    with pytest.raises(AgentCompassError, match=problem) as raised:
        asyncio.run(check())
    assert raised.value.code is Code.ENVIRONMENT_SETUP


def test_a_clone_holds_its_own_past_only(tmp_path: Path) -> None:
    shapes = Shapes(tmp_path)

    async def prepared() -> str:
        async with sandbox() as env:
            await shapes.benchmark.prepare(shapes.sample.task, env)
            await env.exec("git tag x HEAD~1")  # the past is there
            return (await env.exec(["sh", "-c", LOOK, "sh", "."])).stdout

    seen = asyncio.run(prepared())
    assert "width + height" in seen
    assert "width * height" not in seen
    assert "v1.0" not in seen


def test_an_image_of_another_commit_is_refused(shapes: Shapes) -> None:
    async def prepare() -> None:
        async with sandbox() as env:
            await _with_image(shapes, env)
            await env.exec("git reset -q --hard v1.0~2")
            await shapes.benchmark.prepare(shapes.sample.task, env)

    with pytest.raises(AgentCompassError, match="not the base commit"):
        asyncio.run(prepare())
