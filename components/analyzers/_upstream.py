"""Whether an address leads to the project the task is about: its newer files hold the answer."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from agentcompass.components.analyzers._actions import Action
from agentcompass.components.analyzers._shell import Command, git_verb
from agentcompass.components.analyzers._written import code_of
from agentcompass.components.contracts.analysis import FinishedAttempt

URL = re.compile(r"(?:https?|git|ssh)://[^\s\"'<>|;)\]}]+|git@[\w.-]+:[^\s\"'<>|;)]+")
_HOSTS = re.compile(
    r"(?:^|\.)(?:github\.com|githubusercontent\.com|gitlab\.com|bitbucket\.org|codeberg\.org"
    r"|jsdelivr\.net|sourceforge\.net|sr\.ht)$"
)
_REMOTE = re.compile(r"(?:github\.com|gitlab\.com|bitbucket\.org)[/:]([\w.-]+/[\w.-]+)")
_RELEASE = re.compile(r"([a-z][\w.-]*?)-v?\d[\w.+-]*\.(?:tar\.\w+|tgz|zip|whl)$")
_ANYWHERE = re.compile(
    r"readme|license|changelog|(?:setup|main|index|__init__|__main__|conftest|utils?)\.\w+$"
    r"|package(?:-lock)?\.json$|pyproject\.toml$|requirements|.*\.(?:sh|txt|log|out|git)$"
)
"""File names that stand in every project."""


class Upstream:
    """The project of one attempt, from its task and from what the agent saw of it so far."""

    def __init__(self, attempt: FinishedAttempt) -> None:
        text = f"{attempt.task_id} {attempt.detail.category or ''}".lower()
        self._names = set(re.split(r"[^a-z0-9]+", text))
        self._projects = {_plain(p) for p in _REMOTE.findall(attempt.detail.instruction)}
        self._files: set[str] = set()
        # `django__django-11099`: what its package is called, too
        self._packages = set(re.findall(r"^[\w.-]+?__([\w.-]+?)-\d", attempt.task_id.lower()))

    def learn(self, action: Action) -> None:
        """Remotes that git named, and the project's files the agent worked with."""
        self._projects.update(_plain(p) for p in _REMOTE.findall(action.output[:20_000]))
        names = (path.rsplit("/", 1)[-1].lower() for path in _paths(action))
        self._files.update(name for name in names if "." in name and not _ANYWHERE.match(name))

    def is_upstream(self, url: str) -> bool:
        host, path = host_and_path(url)
        file = path.lower().rsplit("/", 1)[-1]
        if (found := _RELEASE.match(file)) and self._is_package(found[1]):
            return True
        if not _HOSTS.search(host):
            return False
        pieces = [p for p in path.lower().split("/") if p]
        if pieces[:1] == ["repos"]:  # api.github.com/repos/owner/name
            pieces = pieces[1:]
        if pieces[:1] in (["gh"], ["npm"]):  # cdn.jsdelivr.net/gh/owner/name@version
            pieces = pieces[1:]
        if len(pieces) < 2:
            return False
        project = _plain("/".join(pieces[:2]))
        if project in self._projects:
            return True
        # As in the task id `django__django-11099`; one of the two alone may be any project.
        if all(re.split(r"[^a-z0-9]+", part)[0] in self._names for part in project.split("/")):
            return True
        return len(pieces) > 3 and pieces[-1] in self._files

    def is_download(self, command: Command) -> bool:
        """`pip download` of the project's own package: what was released later holds the fix."""
        program, words = command.program, list(command.words)
        if re.fullmatch(r"python[\d.]*", program) and words[:2] == ["-m", "pip"]:
            program, words = "pip", words[2:]
        verbs = {"pip": ("download", "wheel"), "pip3": ("download", "wheel"), "npm": ("pack",)}
        aside = program.startswith("pip") and {"-t", "--target", "--root", "--prefix"} & set(words)
        verb = words[0] if words else ""
        if verb not in verbs.get(program, ()) and not (verb == "install" and aside):
            return False
        return any(self._is_package(re.split(r"[=<>~!\[@;]", word)[0]) for word in words[1:])

    def _is_package(self, name: str) -> bool:
        name = re.sub(r"[-_.]+", "-", name.lower())
        return any(name == re.sub(r"[-_.]+", "-", own) for own in self._packages)


def host_and_path(url: str) -> tuple[str, str]:
    """Also of `git@host:owner/name`; empty where it is no address."""
    try:
        parts = urlsplit(re.sub(r"^git@([\w.-]+):", r"ssh://\1/", url))
        return (parts.hostname or "").lower(), parts.path
    except ValueError:
        return "", ""


def urls(action: Action) -> Iterator[tuple[str, Command | None]]:
    """Addresses the action really calls, not those that stand in a text it prints or writes, each
    with the command that does."""
    yield from ((url, None) for url in action.urls)
    for command in action.commands:
        words, code = command.words, code_of(command)
        if command.program == "git":
            verb, rest = git_verb(words)
            words = tuple(rest) if verb in REMOTE_VERBS else ()
        if command.program in ("curl", "wget", "http", "aria2c", "lynx", "w3m", "git", "pip", "uv"):
            text = "\n".join(words)
        else:
            text = code if CALLS.search(code) else ""
        for found in URL.finditer(text):
            yield found.group().rstrip(".,"), command


REMOTE_VERBS = frozenset(["clone", "fetch", "pull", "ls-remote", "remote", "submodule"])
CALLS = re.compile(
    r"urlopen|urlretrieve|\b(?:requests|httpx|aiohttp|urllib3?)\b|http\.client|fetch\(|socket\."
    r"|load_dataset"
)


def _paths(action: Action) -> Iterator[str]:
    if action.path:
        yield action.path
    for command in action.commands:
        if command.program not in ("curl", "wget", "git"):
            yield from (w for w in command.words if "/" in w and "://" not in w)
            yield from command.outputs


def _plain(project: str) -> str:
    return re.sub(r"\.git$|@.*$", "", project.lower().rstrip("/"))
