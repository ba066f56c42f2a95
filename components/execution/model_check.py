"""Ask a model about what the rules found suspicious. The rules' findings stand beside its answers.

Nothing here harms an analysis: what goes wrong is told, and leaves findings without an answer.
What was answered is kept in `model_check.json`, by a digest of the question, and not paid for
twice.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentcompass.components.analyzers._keys import without_keys
from agentcompass.components.contracts.analysis import Checked, Finding, ModelCheck, Report
from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, RequestError
from agentcompass.components.contracts.model import ModelRequest
from agentcompass.components.execution.finished_attempts import read_again
from agentcompass.components.execution.model_check_outcome import CheckOutcome, numbers
from agentcompass.components.execution.model_check_prompt import (
    answered,
    fingerprint,
    question,
    unreadable_answer,
)
from agentcompass.components.execution.model_check_settings import provider
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.store import RunStore
from agentcompass.components.results.writing import to_json, write_atomic

log = logging.getLogger(__name__)

FILE = "model_check.json"
GIVE_UP_AFTER = 3
"""Failed calls in a row."""
LOOK_SECONDS = 0.2
"""Between two looks at whether the check is to end."""
_SEVERITIES = ("serious", "warning", "info")


@dataclass(frozen=True)
class _Question:
    place: tuple[str, int]
    """Analyzer, and the finding's number in its report."""
    key: AttemptKey
    request: ModelRequest
    digest: str


def check_findings(
    settings: ModelCheck,
    reports: Mapping[str, Report],
    store: RunStore,
    folder: Path,
    stopped: Callable[[], bool],
) -> CheckOutcome:
    """The outcome, whose reports hold the answers. Blocking, for `timeout_seconds` at most.

    What is asked first is graver: attempts that count, then severity, then the run's order.
    """
    chosen = list(_suspicious(reports))
    outcome = CheckOutcome(settings.model.id, dict(reports), len(chosen), settings.max_findings)
    masked = store.masker.text
    try:
        asking = _Asking(settings, store, folder, outcome)
        masked = asking.masked
        asking.ask_about(reports, chosen[: settings.max_findings], stopped)
    except Exception as error:  # a damaged file, a plug-in's model: the rules' findings stand
        if not isinstance(error, RequestError | AgentCompassError):
            log.debug("the model check failed", exc_info=error)
        outcome.problems.append(_shown(masked(f"{_name(error)}{error}")))
    return outcome


class _Asking:
    def __init__(
        self, settings: ModelCheck, store: RunStore, folder: Path, outcome: CheckOutcome
    ) -> None:
        self._settings, self._store, self._outcome = settings, store, outcome
        self._model, secrets = provider(settings.model)
        self._own = Masker(secrets)
        self._file = folder / FILE
        self._known = {**_kept(store.folder.analysis / FILE), **_kept(self._file)}
        self._answers: dict[tuple[str, int], Checked] = {}

    def ask_about(
        self, reports: Mapping[str, Report], chosen: "_Chosen", stopped: Callable[[], bool]
    ) -> None:
        try:
            questions = list(self._questions(reports, chosen))
            if questions:
                asyncio.run(self._ask_all(questions, stopped))
        finally:  # also when it is interrupted: what was answered is paid for
            self._put_beside(reports)
            self._write()

    def _questions(self, reports: Mapping[str, Report], chosen: "_Chosen") -> Iterator[_Question]:
        """What has to be sent; what was answered before is taken from there."""
        for place, finding in chosen:
            asked = self._question(place, finding, reports[place[0]].suspicious[finding.kind])
            if asked is None:
                self._outcome.unshown += 1
            elif (known := self._known.get(asked.digest)) is not None:
                self._answers[place] = known
                self._outcome.remembered += 1
            else:
                yield asked

    def _question(self, place: tuple[str, int], finding: Finding, means: str) -> _Question | None:
        assert finding.attempt is not None
        attempt = read_again(self._store, finding.task_id, finding.attempt, finding.earlier_try)
        if attempt is None:
            return None
        settings = self._settings
        request = question(
            place[0], means, finding, attempt, max_chars=settings.max_chars,
            neighbours=settings.neighbours, mask=self.masked,
        )  # fmt: skip
        if request is None:
            return None
        digest = fingerprint(request, settings.model.id, settings.model.params)
        return _Question(place, attempt.record.key, request, digest)

    def masked(self, text: str) -> str:
        """Without the run's and the check's own keys, and without what looks like a live one."""
        return without_keys(self._own.text(self._store.masker.text(text)))

    async def _ask_all(self, questions: Sequence[_Question], stopped: Callable[[], bool]) -> None:
        waiting = iter(questions)
        turn = _Turn()
        workers = [
            asyncio.create_task(self._work(waiting, turn))
            for _ in range(min(self._settings.concurrency, len(questions)))
        ]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.timeout_seconds
        try:
            while not all(worker.done() for worker in workers):
                if stopped():
                    turn.ended = "the run was stopped"
                    break
                if loop.time() > deadline:
                    turn.ended = f"no answer within {self._settings.timeout_seconds:g} s in all"
                    break
                await asyncio.wait(workers, timeout=LOOK_SECONDS)
        finally:
            for worker in workers:
                worker.cancel()
            ends = await asyncio.gather(*workers, return_exceptions=True)
            await self._model.close()
            outcome = self._outcome
            outcome.failed = turn.failed
            outcome.problems += turn.problems
            left = outcome.not_asked - outcome.over_limit - outcome.unshown
            if turn.ended and left + outcome.cut_off:
                outcome.problems.append(turn.ended)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _work(self, waiting: Iterator[_Question], turn: "_Turn") -> None:
        for asked in waiting:
            if turn.ended:
                return
            client = self._model.client(asked.key)
            try:
                reply = await client.complete(asked.request)
            except AgentCompassError as error:
                turn.fails(self.masked(f"{error.code}: {error}"))
                continue
            except asyncio.CancelledError:
                self._outcome.cut_off += 1
                raise
            finally:
                self._outcome.usage += client.usage
            turn.in_a_row = 0
            self._outcome.asked += 1
            name = self._settings.model.id
            said = answered(reply.message.content, name, self.masked)
            self._answers[asked.place] = said or unreadable_answer(name)
            if said is not None:
                self._known[asked.digest] = said

    def _put_beside(self, reports: Mapping[str, Report]) -> None:
        for name in dict.fromkeys(name for name, _ in self._answers):
            findings = tuple(
                finding.model_copy(update={"checked": self._answers.get((name, number))})
                for number, finding in enumerate(reports[name].findings)
            )
            self._outcome.reports[name] = reports[name].model_copy(update={"findings": findings})

    def _write(self) -> None:
        outcome = self._outcome
        document = {
            "schema_version": 1,
            **numbers(outcome),
            "answers": {digest: self._known[digest] for digest in sorted(self._known)},
        }
        masked = self._own.value(self._store.masker.value(document))
        write_atomic(self._file, to_json(masked))


@dataclass
class _Turn:
    """What the workers share."""

    ended: str = ""
    """Why nothing more is asked; "": it goes on."""
    failed: int = 0
    in_a_row: int = 0
    problems: list[str] = field(default_factory=list)
    """Different ones."""

    def fails(self, problem: str) -> None:
        self.failed += 1
        self.in_a_row += 1
        problem = _shown(problem)
        if problem not in self.problems and len(self.problems) < 5:
            self.problems.append(problem)
        if self.in_a_row >= GIVE_UP_AFTER:
            self.ended = f"given up after {GIVE_UP_AFTER} failed calls in a row"


_Chosen = Sequence[tuple[tuple[str, int], Finding]]
"""Analyzer and the finding's number in its report; the finding."""


def _suspicious(reports: Mapping[str, Report]) -> _Chosen:
    """The gravest first; attempts that count before tries that do not."""
    found = [
        ((name, number), finding)
        for name, report in reports.items()
        for number, finding in enumerate(report.findings)
        if finding.kind in report.suspicious and finding.attempt is not None and finding.steps
    ]
    return sorted(
        found,
        key=lambda one: (one[1].earlier_try is not None, _SEVERITIES.index(one[1].severity)),
    )


def _kept(path: Path) -> dict[str, Checked]:
    """Answers of an earlier check; what cannot be read is asked again."""
    try:
        document = json.loads(path.read_bytes())
        found = document["answers"]
        return {str(digest): Checked.model_validate(said) for digest, said in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _shown(masked: str) -> str:
    """On one line, and cut only now: half a secret would be masked by nobody."""
    return " ".join(masked.split())[:500]


def _name(error: Exception) -> str:
    known = isinstance(error, RequestError | AgentCompassError)
    return "" if known else f"{type(error).__name__}: "
