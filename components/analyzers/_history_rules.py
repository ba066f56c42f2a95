"""Which git commands look beyond the past of the commit a task starts from.

The past itself is free: `git log`, `git blame`, `git show HEAD~2`, and a commit that an ordinary
`git log` listed. What is not: every ref at once, the reflog, unreachable objects, remotes, tags,
and commits that came from nowhere.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentcompass.components.analyzers._actions import Action
from agentcompass.components.analyzers._shell import Command, git_verb

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
AHEAD = "what HEAD has not"
_TAKES = frozenset(["cherry-pick", "merge", "rebase", "restore", "read-tree"])
_OBJECTS = frozenset(["verify-pack", "unpack-objects", "fsck", "reflog", "ls-remote", "show-ref"])
_GIT_FILES = re.compile(
    r"(?:^|/)\.git/(?:logs|objects|packed-refs|FETCH_HEAD|ORIG_HEAD|refs/(?:tags|remotes|stash))"
)
_READERS = frozenset(
    ["cat", "ls", "less", "head", "tail", "grep", "find", "strings", "xxd", "tree"]
)
_VALUES = frozenset(["-S", "-G", "-n", "-L", "-s", "-b", "-B", "-c", "-C", "--author", "--grep"])


_SHOWS_PAST = frozenset(
    ["log", "show", "blame", "annotate", "commit", "stash", "rev-list", "whatchanged", "shortlog"]
    + ["diff", "ls-tree", "cat-file", "rev-parse", "merge-base", "revert", "cherry-pick", "am"]
    + ["status", "reset", "checkout", "switch", "bisect"]
)
_NAMES_ALL = frozenset(["for-each-ref", "show-ref", "tag", "name-rev", "worktree", "ls-remote"])
"""Their output names commits that may be no past of the task's."""
_OF_REF = re.compile(
    r"\s*[0-9a-f]{7,40}(?:$|\s+(?:(?:commit|tag|tree|blob)\s+)?refs/)"
    r"|[ *+] \S+\s+[0-9a-f]{7,40} |\S+\s+[0-9a-f]{7,40} \["
)
"""Lines in which they do, beside those of another command."""
_FINDS = frozenset(["show", "cherry-pick", "format-patch"])
"""They read `:/words` as the commit whose message says so; others may, or as a path."""


@dataclass
class Past:
    """What is free to look at, of one attempt."""

    hashes: set[str]
    """Of commits that the task named, or an ordinary git command listed."""
    branches: set[str] = field(default_factory=set)
    """Made by the agent."""

    def make_branches(self, action: Action) -> None:
        for verb, words in _git(action):
            named = [word for word in words if not word.startswith("-")]
            made = verb == "branch" or {"-b", "-B", "-c", "-C"} & set(words)
            if verb in ("checkout", "switch", "branch") and made:
                self.branches.update(named[:1])

    def learn(self, action: Action) -> None:
        """From an action that looked nowhere it should not."""
        shows = names = current = False
        for verb, words in _git(action):
            if verb == "branch":
                current = any(re.match(r"-\w*v|--verbose|--format", word) for word in words)
                names = names or current
            elif verb in _NAMES_ALL or verb in ("rev-parse", "merge-base") and not _of_head(words):
                names = True
            else:
                shows = shows or verb in _SHOWS_PAST
        for line in action.output[:200_000].splitlines() if shows or current else ():
            if current and line.startswith("* ") or shows and not (names and _OF_REF.match(line)):
                self.hashes.update(HASH.findall(line))


def _git(action: Action) -> list[tuple[str, list[str]]]:
    return [git_verb(one.words) for one in action.commands if one.program == "git"]


def _of_head(words: Sequence[str]) -> bool:
    """`rev-parse HEAD~2`; what else it is asked may be any commit."""
    named = [word for word in words if not word.startswith("-")]
    return not named or any(re.match(r"(?:HEAD|@)(?:[~^]|$)", word) for word in named)


def look(command: Command, past: Past) -> str | None:
    """Why this command looks where it should not; None: it does not."""
    if command.program in _READERS and any(_GIT_FILES.search(word) for word in command.words):
        return "reads git's own files"
    if command.program != "git":
        return None
    verb, words = git_verb(command.words)
    if verb == "remote" and words[:1] == ["update"]:
        return "asks the remote (git remote update)"
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
        for word in _revisions(verb, words, past):
            if re.match(r":/.", word) and (verb in _FINDS or verb == "log" and " " in word):
                return f"git {verb} of {word}, whichever ref leads to it"
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
    verb, words = git_verb(command.words)
    if verb == "checkout":
        return "--" in words or len([w for w in words if not w.startswith("-")]) > 1
    return verb in _TAKES or verb == "pull" or (verb == "reset" and "--hard" in words)


def known(revision: str, past: Past) -> bool:
    return any(one.startswith(revision) or revision.startswith(one) for one in past.hashes)


def _before_paths(words: Sequence[str]) -> list[str]:
    return list(words[: words.index("--")] if "--" in words else words)


def _revisions(verb: str, words: Sequence[str], past: Past) -> list[str]:
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
            if len(ends) == 2 and ends[0] in ("", "HEAD", "@") and _ahead(ends[1], past):
                return [AHEAD]
            found += [end for end in ends if end]
    if verb == "grep":  # its first word is the pattern
        found = found[1:]
    return found


def _ahead(end: str, past: Past) -> bool:
    """`HEAD..main`: what the task's commit has not, unless the agent made it."""
    is_name = re.fullmatch(r"[A-Za-z_][\w./-]*", end) is not None and not HASH.fullmatch(end)
    return is_name and not re.match(r"HEAD\b|FETCH_HEAD", end) and end not in past.branches


def _foreign(word: str, past: Past) -> str | None:
    if word == AHEAD or _FOREIGN.match(word):
        return word
    revision = re.split(r"[~^:]", word)[0]
    if re.fullmatch(r"[0-9a-f]{7,40}", revision) and not revision.isalpha():
        return None if known(revision, past) else f"{word}, a commit from nowhere"
    return None
