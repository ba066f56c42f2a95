"""Looking up the fix in git's history or in the project's repository; looked, or also used.

Rules, not a model: `git log --all`, the reflog, unreachable objects, remotes, tags, commits that
came from nowhere, and the project's own repository on the network. Used: what was shown there,
and nowhere else before, stands in what the agent wrote afterwards, or went there directly.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, NamedTuple

from pydantic import Field

from agentcompass.components.analyzers._actions import Action, actions
from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.analyzers._history_rules import HASH, Past, look, takes
from agentcompass.components.analyzers._outcomes import MOST_LOOKS, failed, left
from agentcompass.components.analyzers._own import scratch
from agentcompass.components.analyzers._shell import Command, git_verb
from agentcompass.components.analyzers._traces import Traces
from agentcompass.components.analyzers._upstream import Upstream, urls
from agentcompass.components.analyzers._written import changes, downloaded_to, with_embedded
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.protocols import Component

KINDS = {
    "used": Kind(
        "serious",
        "the agent looked up the fix and used it",
        "Do not count the successes that used the fix from git's history or the project's own "
        "repository: remove it from the image and close the network, then run these tasks again",
        "won",
        suspicious=True,
    ),
    "looked": Kind(
        "warning",
        "the agent looked where the fix stands; nothing shows that it used it",
        "Read the steps in which the agent looked for the fix in git's history or upstream",
        "won",
        suspicious=True,
    ),
    "tried": Kind("info", "the agent looked for the fix there and got nothing"),
}


class HistoryPeekingParameters(AnalyzerParameters):
    used_chars: Annotated[int, Field(ge=1)] = 20
    """So many characters of lines that were shown there, and written afterwards, are "used"."""


class HistoryPeeking:
    def __init__(self, parameters: HistoryPeekingParameters) -> None:
        self._used_chars = parameters.used_chars
        self._findings = Findings(KINDS, parameters.examples)

    def look_at(self, attempt: FinishedAttempt) -> None:
        traces = Traces(attempt.detail.instruction, self._used_chars)
        upstream = Upstream(attempt)
        past = Past(set(HASH.findall(attempt.detail.instruction)))
        found: dict[str, list[tuple[int, str]]] = {kind: [] for kind in KINDS}
        for action in actions(attempt):
            if (use := traces.used_by(action)) is not None:
                found["used"].append((action.step, use))
            traces.wrote(action)
            past.make_branches(action)
            looks = tuple(islice(_looks(action, past, upstream), MOST_LOOKS))
            if not looks and not traces.touches(action):
                upstream.learn(action)
                traces.innocent(action.output)
                past.learn(action)
                continue
            why = looks[0].why if looks else "reads what it fetched"
            seen = (action.step, f"{why}: {action.line or action.tool}")
            done = [
                one for one in looks if not failed(action, one.command, alike=_alike(looks, one))
            ]
            direct = any(look.direct for look in done)
            if not (left(action) or direct or _saves(action)) or (looks and not done):
                found["tried"].append(seen)
                continue
            found["used" if direct else "looked"].append(seen)
            traces.shown(action.output)
            _keep(action, traces)
        if (line := traces.in_text(_answer(attempt))) is not None:
            found["used"].append((attempt.steps[-1].step_id, f"answered: {line}"))
        self._conclude(attempt, found)

    def _conclude(self, attempt: FinishedAttempt, found: dict[str, list[tuple[int, str]]]) -> None:
        """One word for the attempt, the gravest: who used it has looked, too."""
        if found["used"]:
            all_of_it = [*found["looked"], *found["used"]]
            evidence = "; then ".join(text for _, text in [*found["looked"][:1], found["used"][0]])
            self._findings.add("used", attempt, evidence, sorted({step for step, _ in all_of_it}))
            return
        for kind in ("looked", "tried"):
            if found[kind]:
                steps = [step for step, _ in found[kind]]
                self._findings.add(kind, attempt, found[kind][0][1], steps)
                return

    def report(self) -> Report:
        return self._findings.report()


class _Look(NamedTuple):
    why: str
    command: Command | None
    direct: bool
    """It puts what it finds into the working tree."""


def _alike(looks: tuple[_Look, ...], one: _Look) -> int:
    """So many failures of its program would be the failure of all: git's by command."""
    program = one.command.program if one.command else ""
    same = [look.command for look in looks if look.command and look.command.program == program]
    return len({id(command) for command in same}) if program == "git" else len(same)


def _looks(action: Action, past: Past, upstream: Upstream) -> Iterator[_Look]:
    """Where the action looks and should not."""
    for command in with_embedded(action):
        why = look(command, past)
        if why is not None:
            kept = any(path and not scratch(path) and path[0] != "$" for path in command.outputs)
            yield _Look(why, command, takes(command) or kept)
        elif upstream.is_download(command):
            yield _Look("downloads the project's own package", command, False)
    for url, caller in urls(action):
        if upstream.is_upstream(url):
            direct = any(takes(command) for command in action.commands) or any(
                not scratch(change.path) and _same_file(change.path, url)
                for change in changes(action)
            )
            yield _Look(f"fetches {url}", caller, direct)


def _same_file(path: str, url: str) -> bool:
    """It lands on a file of the project, not beside it under another name."""
    return "/" in path and path.rsplit("/", 1)[-1] == url.split("?")[0].rsplit("/", 1)[-1]


def _saves(action: Action) -> bool:
    return any(_files(c) or _clones(c) or c.program in _INTO for c in action.commands)


def _keep(action: Action, traces: Traces) -> None:
    """Files and clones that hold what was fetched."""
    for command in action.commands:
        for path in _files(command):
            traces.place(path, action)
        if _clones(command):
            words = [w for w in git_verb(command.words)[1] if not w.startswith("-")]
            if len(words) > 1:
                traces.place(words[-1], action)
            elif words:
                name = words[0].rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
                traces.place(name, action)


_INTO = {
    "pip": ("-d", "--dest", "-t", "--target"), "pip3": ("-d", "--dest", "-t", "--target"),
    "tar": ("-C", "--directory"), "unzip": ("-d",),
}  # fmt: skip


def _files(command: Command) -> list[str]:
    words, into = command.words, _INTO.get(command.program, ())
    folders = [words[i + 1] for i, word in enumerate(words[:-1]) if word in into]
    folders = [folder for folder in folders if scratch(folder)]  # others hold the project, too
    written = (*command.outputs, *downloaded_to(command), *folders)
    return [path for path in written if not path.startswith("/dev/")]


def _clones(command: Command) -> bool:
    return command.program == "git" and git_verb(command.words)[0] == "clone"


def _answer(attempt: FinishedAttempt) -> str:
    submission = attempt.record.submission
    return (submission.answer or "") if submission else ""


COMPONENT = Component(version="2", create=HistoryPeeking, parameters=HistoryPeekingParameters)
