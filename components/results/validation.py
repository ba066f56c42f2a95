"""Is a benchmark sound? Its known-good solutions must score full, an agent that does nothing must
score nothing, and judging the same work again must give the same verdict."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from agentcompass.components.contracts.attempt import AttemptRecord, Detail
from agentcompass.components.contracts.frozen import Frozen

Health = Literal["sound", "flaky", "solution_fails", "idle_scores", "not_judged"]

MEANINGS: Mapping[Health, str] = {
    "sound": "the known-good solution scores full and doing nothing scores nothing, every time",
    "flaky": "the same work got different verdicts",
    "solution_fails": "the known-good solution does not score full",
    "idle_scores": "an agent that does nothing scores",
    "not_judged": "an attempt ended without a score: environment, grader or data",
}


class TaskHealth(Frozen):
    task_id: str
    health: Health
    oracle: tuple[float | None, ...]
    """Values of the known-good solution's attempts; None: no score."""
    idle: tuple[float | None, ...]
    reasons: tuple[str, ...] = ()
    """What a person needs to see: failures' messages, failed tests."""


class Validation(Frozen):
    schema_version: Literal[1] = 1
    benchmark: str
    environment: str
    repeats: int
    full: float
    """The score a solution must reach."""
    nothing: float
    tasks: tuple[TaskHealth, ...]

    @property
    def unsound(self) -> tuple[TaskHealth, ...]:
        return tuple(task for task in self.tasks if task.health != "sound")


def validation(
    benchmark: str,
    environment: str,
    repeats: int,
    score_range: tuple[float, float],
    oracle: Iterable[Detail],
    idle: Iterable[Detail],
    planned: Sequence[str],
) -> Validation:
    """`planned`: the task ids in their order; a task without details was not judged."""
    nothing, full = score_range
    solved = {detail.task_id: detail.attempts for detail in oracle}
    left = {detail.task_id: detail.attempts for detail in idle}
    return Validation(
        benchmark=benchmark,
        environment=environment,
        repeats=repeats,
        full=full,
        nothing=nothing,
        tasks=tuple(
            _task(task_id, solved.get(task_id, ()), left.get(task_id, ()), repeats, full, nothing)
            for task_id in planned
        ),
    )


def _task(
    task_id: str,
    oracle: Sequence[AttemptRecord],
    idle: Sequence[AttemptRecord],
    repeats: int,
    full: float,
    nothing: float,
) -> TaskHealth:
    solved = _values(oracle, repeats)
    left = _values(idle, repeats)
    health: Health
    if None in solved or None in left:
        health = "not_judged"
    elif len(set(solved)) > 1 or len(set(left)) > 1:
        health = "flaky"
    elif solved[0] != full:
        health = "solution_fails"
    elif left[0] != nothing:
        health = "idle_scores"
    else:
        health = "sound"
    wrong = [record for record in oracle if record.value != full]
    wrong += [record for record in idle if record.value != nothing]
    reasons = dict.fromkeys(reason for record in wrong for reason in _reasons(record))
    return TaskHealth(
        task_id=task_id,
        health=health,
        oracle=solved,
        idle=left,
        reasons=tuple(reasons) if health != "sound" else (),
    )


def _values(records: Sequence[AttemptRecord], repeats: int) -> tuple[float | None, ...]:
    values = {record.key.index: record.value for record in records}
    return tuple(values.get(index) for index in range(1, repeats + 1))


def _reasons(record: AttemptRecord) -> Iterable[str]:
    if record.failure is not None:
        yield f"{record.failure.code}: {record.failure.message}"
    for evidence in record.verdict.evidence if record.verdict else ():
        if evidence.passed is False:
            text = " ".join(evidence.text.split())[:200]
            yield f"{evidence.name}: {text}" if text else evidence.name


def validation_markdown(result: Validation) -> str:
    """What to do first, then every task that is not sound."""
    total, unsound = len(result.tasks), result.unsound
    lines = [
        f"# {result.benchmark} on {result.environment}",
        "",
        f"{total - len(unsound)} of {total} tasks are sound "
        f"(solution = {result.full:g}, idle = {result.nothing:g}, judged {result.repeats}×).",
        "",
    ]
    for health, meaning in MEANINGS.items():
        concerned = [task for task in unsound if task.health == health]
        if concerned:
            lines += [f"## {health}: {meaning}", ""]
            lines += [line for task in concerned for line in _task_lines(task)]
            lines.append("")
    return "\n".join(lines)


def _task_lines(task: TaskHealth) -> list[str]:
    def shown(values: Sequence[float | None]) -> str:
        return ", ".join("–" if value is None else f"{value:g}" for value in values)

    head = f"- `{task.task_id}`: solution {shown(task.oracle)}; idle {shown(task.idle)}"
    return [head, *(f"  - {reason}" for reason in task.reasons[:5])]
