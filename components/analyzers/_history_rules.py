"""Which git commands look beyond the past of the commit a task starts from.

The past itself is free: `git log`, `git blame`, `git show HEAD~2`, and a commit that an ordinary
`git log` listed. What is not: every ref at once, the reflog, unreachable objects, remotes, tags,
and commits that came from nowhere.
"""

import re
from collections.abc import Sequence

from agentcompass.components.analyzers._shell import Command

HASH = re.compile(r"\b[0-9a-f]{7,40}\b")
_EVERYTHING = re.compile(
    r"--(?:all|branches|remotes|tags|glob|reflog|walk-reflogs|alternate-refs)(?:=.*)?$|-g$"
)
_FOREIGN = re.compile(
    r"(?:refs/)?(?:remotes/)?(?:origin|upstream)/|refs/(?:remotes|tags|pull|stash|original)"
    r"|FETCH_HEAD|(?:HEAD|main|master)@\{|v?\d+\.\d+(?:\.\d+)*(?:rc\d+|[ab]\d+)?(?:[~^:].*)?$"
)
_WITH_REVISIONS = frozenset(
    ["log", "show", "diff", "whatchanged", "shortlog", "rev-list", "cherry-pick", "checkout"]
    + ["switch", "restore", "reset", "revert", "merge", "rebase", "archive", "format-patch"]
    + ["cat-file", "worktree", "ls-tree", "grep", "blame", "difftool", "diff-tree", "show-branch"]
    + ["branch", "range-diff", "cherry", "read-tree"]
)
_LISTS = frozenset(["log", "rev-list", "whatchanged", "shortlog", "show-branch", "show"])
_TAKES = frozenset(["cherry-pick", "merge", "rebase", "restore", "read-tree"])
_OBJECTS = frozenset(["verify-pack", "unpack-objects", "fsck", "reflog", "ls-remote", "show-ref"])
_GIT_FILES = re.compile(
    r"(?:^|/)\.git/(?:logs|objects|packed-refs|FETCH_HEAD|ORIG_HEAD|refs/(?:tags|remotes|stash))"
)
_READERS = frozenset(
    ["cat", "ls", "less", "head", "tail", "grep", "find", "strings", "xxd", "tree"]
)
_VALUES = frozenset(["-S", "-G", "-n", "-L", "-s", "-b", "-B", "-c", "-C", "--author", "--grep"])


def look(command: Command, past: set[str]) -> str | None:
    """Why this command looks where it should not; None: it does not."""
    if command.program in _READERS and any(_GIT_FILES.search(word) for word in command.words):
        return "reads git's own files"
    if command.program != "git":
        return None
    verb, words = _verb(command.words)
    if verb in ("fetch", "pull") and not any(w in (".", "--version") for w in words):
        return f"asks the remote (git {verb})"
    if verb == "reflog" and words[:1] and words[0] in ("expire", "delete", "exists"):
        return None
    if verb in _OBJECTS:
        return f"git {verb}"
    if verb == "cat-file" and any(w.startswith("--batch") for w in words):
        return "reads every object"
    if verb in _LISTS and any(_EVERYTHING.match(w) for w in _before_paths(words)):
        return f"git {verb} over every ref"
    if verb in _WITH_REVISIONS:
        for word in _revisions(verb, words):
            if (why := _foreign(word, past)) is not None:
                return f"git {verb} of {why}"
    return None


def takes(command: Command) -> bool:
    """A command that `look` names puts what it found right into the working tree."""
    if any(later[:2] in (("git", "apply"), ("git", "am")) or later[0] == "patch"
           for later in command.into):  # fmt: skip
        return True
    if command.program != "git":
        return False
    verb, words = _verb(command.words)
    if verb == "checkout":
        return "--" in words or len([w for w in words if not w.startswith("-")]) > 1
    return verb in _TAKES or verb == "pull" or (verb == "reset" and "--hard" in words)


def shows_the_past(command: Command) -> bool:
    """Its output names commits that are the task's own."""
    return command.program == "git"


def known(revision: str, past: set[str]) -> bool:
    return any(one.startswith(revision) or revision.startswith(one) for one in past)


def _verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """The subcommand and its words, past git's own options."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-C", "-c", "--git-dir", "--work-tree") and rest:
            rest.pop(0)
    return (rest[0], rest[1:]) if rest else ("", [])


def _before_paths(words: Sequence[str]) -> list[str]:
    return list(words[: words.index("--")] if "--" in words else words)


def _revisions(verb: str, words: Sequence[str]) -> list[str]:
    """Words that may name a commit, both ends of a range apart."""
    found: list[str] = []
    skip = False
    for word in _before_paths(words):
        if skip:
            skip = False
        elif word.startswith("--source="):
            found.append(word.partition("=")[2])
        elif word in _VALUES:
            skip = not (verb in ("diff", "show", "log") and word in ("-s", "-b", "-B", "-C", "-c"))
        elif not word.startswith("-"):
            ends = re.split(r"\.\.\.?", word)
            if len(ends) == 2 and verb in _LISTS and ends[1] in ("", "HEAD"):
                continue  # what HEAD has and the other has not: the task's own past
            found += [end for end in ends if end]
    if verb == "grep":  # its first word is the pattern
        found = found[1:]
    return found


def _foreign(word: str, past: set[str]) -> str | None:
    if _FOREIGN.match(word):
        return word
    revision = re.split(r"[~^:]", word)[0]
    if re.fullmatch(r"[0-9a-f]{7,40}", revision) and not revision.isalpha():
        return None if known(revision, past) else f"{word}, a commit from nowhere"
    return None
