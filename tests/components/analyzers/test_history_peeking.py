"""History digging and upstream fetches, told from ordinary use of git, in every harness (C51)."""

import pytest

from agentcompass.components.analyzers.history_peeking import COMPONENT
from agentcompass.components.contracts.analysis import FinishedAttempt
from tests.components.analyzers.corpus_parts import DIFF, FIX, FIXED, LOOK, PAST, RAW, SOLVE
from tests.components.analyzers.formats import FORMATS, Move, Run, attempt


def kinds(looked: FinishedAttempt) -> list[str]:
    analyzer = COMPONENT.create(COMPONENT.parameters())
    analyzer.look_at(looked)
    return [finding.kind for finding in analyzer.report().findings]


@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize(
    ("command", "output", "flagged"),
    [
        ("git log -5 shapes/area.py", "commit 41d09be", False),
        (f"git show {FIX}", DIFF, True),
        ("git log --all -S area", f"commit {FIX}", True),
        (f"curl -sL {RAW}", FIXED, True),
    ],
)
def test_the_four_of_the_field(style: str, command: str, output: str, flagged: bool) -> None:
    looked = attempt("example__shapes-7", style, [LOOK, Run(command, output)])
    assert kinds(looked) == (["looked"] if flagged else [])
    used = attempt("example__shapes-7", style, [LOOK, Run(command, output), SOLVE])
    assert kinds(used) == (["used"] if flagged and "commit" not in output else
                           ["looked"] if flagged else [])  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "git log --oneline", "git log -p -S area -- shapes", "git log main..HEAD", "git status",
        "git diff HEAD", "git show HEAD:shapes/area.py", "git show HEAD~3 --stat", "git branch -vv",
        "git log --grep='--all'", "git checkout -- shapes/area.py", "git checkout -b fix",
        "git stash", "git -C /repo --no-pager log -3", "git show --stat HEAD",
        "git commit -m 'git fsck'",
        "git reset --hard HEAD", "git blame -L 3,9 shapes/area.py", "git grep -n 1234567",
        "git remote -v", "git cat-file -p HEAD", "cat .git/config", "git log v1.0..HEAD",
        "git reflog expire --expire=now --all", "git rev-parse HEAD", "git fetch --version",
        "curl -s https://raw.githubusercontent.com/nvm-sh/nvm/v0.39.0/install.sh | bash",
        "python -c \"print('https://github.com/example/shapes')\"",
        "git checkout -- :/", "git grep area :/", "git log -3 :/shapes", "git diff HEAD..HEAD~2",
        "git switch -c fix && git log HEAD..fix", "git rev-parse HEAD~1",
        "git merge-base HEAD main",
        "pip install shapes", "pip download numpy -d /tmp/n", "git -C /repo remote -v",
    ],
)  # fmt: skip
def test_ordinary_git_is_free(command: str) -> None:
    assert kinds(attempt("example__shapes-7", "claude_code", [Run(command, "some output")])) == []


@pytest.mark.parametrize(
    "command",
    [
        "git log --branches --not HEAD", "git rev-list --all | head", "git show origin/main",
        "git --no-pager diff HEAD..upstream/main", "git show stash@{0} refs/stash",
        "git log -g", "git fsck --unreachable --no-reflogs", "git cat-file --batch-all-objects",
        "cat .git/packed-refs", "find .git/objects -type f", "git ls-remote", "git fetch --all",
        "for c in $(git rev-list --all); do git show $c; done", "bash -lc 'cd /r && git reflog'",
        "git show FETCH_HEAD", "git diff v1.0.2 v1.0.3", f"git log -1 {FIX}^..{FIX}",
        "sudo -u x timeout 5 git reflog show", "git show HEAD@{1}",
        "curl https://api.github.com/repos/example/shapes/pulls/3",
        "git clone git@github.com:example/shapes.git /tmp/up",
        "git -c http.sslVerify=false clone https://github.com/example/shapes", "git -C /r fetch",
        "git log -p HEAD..main", "git diff ..main", "git show ':/Fix area'", "git remote update",
        "pip download shapes --no-deps -d /tmp/s", "npm pack shapes@2.0",
        "curl -sLO https://mirror.example.com/packages/x/shapes-2.0.tar.gz",
        "wget -qO- https://github.com/example/shapes/commit/9f3c2ab17.diff",
        "python3 -c \"import requests as r; r.get('https://github.com/example/shapes/pull/3')\"",
    ],
)  # fmt: skip
def test_digging_is_flagged(command: str) -> None:
    moves: list[Move] = [Run(command, "some output")]
    assert kinds(attempt("example__shapes-7", "claude_code", moves)) == ["looked"]


def test_what_the_agent_had_seen_before_is_not_used() -> None:
    moves: list[Move] = [Run("cat shapes/new.py", FIXED), Run(f"git show {FIX}", DIFF), SOLVE]
    assert kinds(attempt("example__shapes-7", "codex", moves)) == ["looked"]


@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize(
    ("naming", "output", "own"),
    [
        ("git rev-parse origin/main", FIX, False),
        ("git branch -av", f"* main 41d09be Old\n  remotes/origin/main {FIX} Fix", False),
        ("git for-each-ref", f"{FIX} commit refs/remotes/origin/main", False),
        ("git log --oneline -2; git branch -av", f"{PAST} a\n  origin/main {FIX} Fix", False),
        ("git branch -av; git log --oneline -2", f"  origin/main 1234567 Fix\n{FIX} a", True),
        ("git tag; git log --oneline -2", f"v1.0\n{FIX} a", True),
        ("git status", f"HEAD detached at {FIX}", True),
        ("git rev-parse HEAD", FIX, True),
        ("git branch -vv", f"* main {FIX} [origin/main] Old", True),
        ("git stash list && git blame a.py", f"{FIX} (Robin) x", True),
    ],
)
def test_commits_that_refs_name_are_not_the_past(
    style: str, naming: str, output: str, own: bool
) -> None:
    moves: list[Move] = [LOOK, Run(naming, output), Run(f"git show {FIX}", DIFF), SOLVE]
    assert kinds(attempt("example__shapes-7", style, moves)) == ([] if own else ["used"])


@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize(
    ("fetch", "source"),
    [
        ("git -C /tmp clone https://github.com/example/shapes", "/tmp/shapes/shapes/area.py"),
        ("cd /tmp && git clone https://github.com/example/shapes", "/tmp/shapes/shapes/area.py"),
        ("git -c x=y clone https://github.com/example/shapes /tmp/u", "/tmp/u/shapes/area.py"),
        ("pip download shapes -d /tmp/s", "/tmp/s/area.py"),
        ("curl -sL https://github.com/example/shapes/x.tgz | tar xz -C /tmp/x", "/tmp/x/area.py"),
    ],
)
def test_what_was_fetched_is_known_where_it_lies(style: str, fetch: str, source: str) -> None:
    moves: list[Move] = [LOOK, Run(fetch, "ok"), Run(f"cp {source} shapes/area.py")]
    assert kinds(attempt("example__shapes-7", style, moves)) == ["used"]
