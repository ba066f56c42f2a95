"""`agentcompass validate`: is a benchmark sound, here and now?"""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentcompass.cli.run_command import RunCommand
from agentcompass.cli.run_options import option, with_options
from agentcompass.cli.streams import complain, put
from agentcompass.cli.values import TextValue, WholeNumber
from agentcompass.components.execution.request import RunOptions, build_request

if TYPE_CHECKING:
    from agentcompass.cli.run_checks import Checked
    from agentcompass.components.contracts.progress import Outcome
    from agentcompass.components.contracts.run import RunRequest
    from agentcompass.components.results.validation import Validation

NOT_SOUND = 1
TAKEN_OVER = (
    "--benchmark-params", "--config", "--env", "--env-params", "--recipe", "--recipe-dir",
    "--execution-params", "--task-concurrency", "--max-retries", "--keep-environment", "--run-name",
    "--results-dir", "--data-dir", "--timeout-seconds", "--env-open-qps", "--provider-limit",
    "--progress", "--log-level", "--file-log-level", "--auto-install-dependencies", "--json",
)  # fmt: skip
"""Options of `run` that mean the same here."""


@click.command("validate", cls=RunCommand)
@click.argument("benchmark", type=TextValue(empty=False))
@option(
    "--repeats",
    "Validation",
    type=WholeNumber(least=1),
    shown_default="1",
    help="Attempts per task and agent; more name graders that do not always say the same.",
)
@with_options(*TAKEN_OVER)
def validate(benchmark: str, repeats: int | None, **typed: Any) -> int:
    """Let the known-good solutions and an agent that does nothing try every selected task.

    The first must score full, the second nothing, every time. Needs no model and no key. Exit
    code 0: all tasks are sound; 1: some are not, and named. The last line is the report's file.
    """
    from agentcompass.cli.run_checks import check
    from agentcompass.cli.run_execution import carry_out
    from agentcompass.components.configuration.secrets import holding

    # What the configuration says of these would leave out attempts whose verdicts are wanted.
    anew: dict[str, Any] = {"k": repeats or 1, "attempt_strategy": "avg"}
    options = RunOptions(benchmark, "oracle", "scripted", **anew, **typed)
    built = [
        (_without_reuse(request), secrets)
        for request, secrets in (
            build_request(replace(options, harness=harness)) for harness in ("oracle", "idle")
        )
    ]
    checked = []
    for request, secrets in built:  # both, before either is run
        with holding(secrets):
            checked.append(check(request))
    outcomes = []
    for request, secrets in built:
        outcome = carry_out(request, secrets)
        if outcome.state != "finished":
            return _unfinished(outcome, as_json=options.json)
        outcomes.append(outcome)
    report, path = _report(checked[0], repeats or 1, outcomes)
    code = NOT_SOUND if report.unsound else 0
    if options.json:
        document = {**report.model_dump(mode="json"), "report": str(path), "exit_code": code}
        put(json.dumps(document))
    else:
        for line in _lines(report):
            put(line)
        put(str(path))
    return code


def _without_reuse(request: "RunRequest") -> "RunRequest":
    return request.model_copy(
        update={"runtime": request.runtime.model_copy(update={"reuse": None})}
    )


def _unfinished(outcome: "Outcome", *, as_json: bool) -> int:
    problem = outcome.problem or "not all was judged"
    complain(f"agentcompass: {outcome.state}: {problem}")
    if as_json:
        document = {"outcome": outcome.state, "problem": problem, "run_dir": outcome.run_dir}
        put(json.dumps({**document, "exit_code": outcome.exit_code}, ensure_ascii=False))
    return outcome.exit_code


def _report(
    checked: "Checked", repeats: int, outcomes: "list[Outcome]"
) -> "tuple[Validation, Path]":
    from agentcompass.components.results.paths import RunFolder
    from agentcompass.components.results.store import RunStore
    from agentcompass.components.results.validation import validation, validation_markdown
    from agentcompass.components.results.writing import to_json, write_atomic

    oracle, idle = (RunStore(RunFolder(Path(outcome.run_dir))).details() for outcome in outcomes)
    benchmark = checked.parts.benchmark
    report = validation(
        checked.plan.benchmark.id,
        checked.plan.environment.id,
        repeats,
        benchmark.score_range if benchmark.primary == "score" else (0.0, 1.0),
        oracle,
        idle,
        [sample.task.id for sample in checked.samples],
    )
    folder = Path(outcomes[0].run_dir)
    write_atomic(folder / "validation.json", to_json(report))
    write_atomic(folder / "validation.md", validation_markdown(report).encode())
    return report, folder / "validation.md"


def _lines(report: "Validation") -> list[str]:
    from agentcompass.components.results.validation import MEANINGS

    total, unsound = len(report.tasks), report.unsound
    lines = [f"{total - len(unsound)} of {total} tasks are sound"]
    for health, meaning in MEANINGS.items():
        named = [task.task_id for task in unsound if task.health == health]
        if named:
            lines.append(f"{health:<15} {len(named)}: {', '.join(named)} ({meaning})")
    return lines
