"""Do the official harness and ours agree? It reads a run's predictions, runs its script, reports.

    python bench/swebench_official.py RUN_FOLDER…       # needs agentcompass[swebench]

Each prediction is put into a sandbox as the run's own were, prepared by our code. What follows is
the official package's: the way a patch is applied, its evaluation script (with stand-ins for the
`conda` that its images have), its log parsers, its report code. Its reports stand in `official/`
beside the predictions.
"""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])  # this folder has a swebench.py of its own

from agentcompass.components.contracts.attempt import AttemptKey, Verdict  # noqa: E402
from agentcompass.components.contracts.run import (  # noqa: E402
    Choice,
    ModelSpec,
    RunPlan,
    RunRequest,
)
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel  # noqa: E402
from agentcompass.components.execution import prepare  # noqa: E402
from agentcompass.components.execution.parts import Parts, assemble  # noqa: E402
from agentcompass.components.execution.plan import resolve  # noqa: E402
from agentcompass.components.results.paths import RunFolder  # noqa: E402
from agentcompass.components.results.store import RunStore  # noqa: E402

RUN_ID = "official"
CONDA = """\
mkdir -p /opt/miniconda3/bin
echo '. /opt/testbed/bin/activate; conda() { :; }' >/opt/miniconda3/bin/activate
"""


def main() -> None:
    for name in sys.argv[1:]:
        folder = Path(name).resolve()
        (folder / "official").mkdir(exist_ok=True)
        with contextlib.chdir(folder / "official"):  # the package writes where it stands
            asyncio.run(_compare(folder))


async def _compare(folder: Path) -> None:
    from swebench.harness.reporting import make_run_report
    from swebench.harness.utils import get_predictions_from_file

    plan, parts, rows = _again(folder)
    read = get_predictions_from_file(str(folder / "predictions.jsonl"), "", "")
    predictions = {row["instance_id"]: row for row in read}
    for prediction in predictions.values():
        if prediction["model_patch"]:
            await _evaluate(plan, parts, rows[prediction["instance_id"]], prediction)
    chosen = [rows[name] for name in predictions]
    with contextlib.redirect_stdout(sys.stderr):
        report = json.loads(make_run_report(predictions, chosen, RUN_ID).read_text())
    ours = {
        detail.task_id: record.verdict
        for detail in RunStore(RunFolder(folder)).details()
        for record in detail.attempts[:1]
    }
    for name in predictions:
        theirs = next(
            kind
            for kind in ("resolved", "unresolved", "empty_patch", "error")
            if name in report[f"{kind}_ids"]
        )
        print(f"{name:24} official: {theirs:11} {_their_counts(name)}")
        print(f"{'':24} ours:     {_word(ours[name])}", flush=True)


def _their_counts(name: str) -> str:
    found = list(Path("logs").rglob(f"{name}/report.json"))
    status = json.loads(found[0].read_text())[name].get("tests_status", {}) if found else {}
    return ", ".join(
        f"{kind}: {len(parts['success'])} of {sum(map(len, parts.values()))} passed"
        for kind, parts in status.items()
        if kind in ("FAIL_TO_PASS", "PASS_TO_PASS")
    )


def _word(verdict: Verdict | None) -> str:
    if verdict is None:
        return "unscored"
    counts = [f"{e.name}: {e.text}" for e in verdict.evidence if e.name.endswith("_TO_PASS")]
    return f"{'resolved' if verdict.correct else 'unresolved':11} {', '.join(counts)}"


def _again(folder: Path) -> tuple[RunPlan, Parts, dict[str, Any]]:
    """The run's benchmark and sandboxes, and the rows of its data file."""
    made = RunStore(RunFolder(folder)).read_run()
    assert made is not None
    request = RunRequest.model_validate(made["plan"]["request"]).model_copy(
        update={"harness": Choice(id="idle"), "model": ModelSpec(id="scripted")}
    )
    plan = resolve(request)
    data = Path(str(request.benchmark.params["data_path"]))
    lines = filter(str.strip, data.read_text(encoding="utf-8").split("\n"))
    rows = {row["instance_id"]: row for row in map(json.loads, lines)}
    return plan, assemble(plan), rows


async def _evaluate(plan: RunPlan, parts: Parts, row: Any, prediction: Any) -> None:
    from swebench.harness.grading import get_eval_report

    spec = _spec(row)
    place = Path("logs/run_evaluation") / RUN_ID / prediction["model_name_or_path"]
    place /= row["instance_id"]
    place.mkdir(parents=True, exist_ok=True)
    log = await _run(plan, parts, row["instance_id"], prediction["model_patch"], spec.eval_script)
    (place / "test_output.txt").write_text(log)
    report = get_eval_report(spec, prediction, str(place / "test_output.txt"), True)
    (place / "report.json").write_text(json.dumps(report, indent=1))


def _spec(row: Any) -> Any:
    """As the package's make_test_spec, which would fetch what images are built from."""
    from swebench.harness.constants import MAP_REPO_TO_EXT, MAP_REPO_VERSION_TO_SPECS
    from swebench.harness.test_spec.python import make_eval_script_list_py
    from swebench.harness.test_spec.test_spec import TestSpec

    known = MAP_REPO_VERSION_TO_SPECS[row["repo"]][row["version"]]
    where = ("testbed", "/testbed", row["base_commit"], row["test_patch"])
    lists = {name: row[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    return TestSpec(
        instance_id=row["instance_id"],
        repo=row["repo"],
        version=row["version"],
        env_script_list=[],
        repo_script_list=[],
        eval_script_list=make_eval_script_list_py(row, known, *where),
        arch="x86_64",
        language=MAP_REPO_TO_EXT[row["repo"]],
        docker_specs={},
        namespace=None,
        **{k: json.loads(v) if isinstance(v, str) else v for k, v in lists.items()},
    )


async def _run(plan: RunPlan, parts: Parts, name: str, patch: str, script: str) -> str:
    from swebench.harness.run_evaluation import GIT_APPLY_CMDS

    _, samples = prepare.load_samples(plan, parts)
    task = next(sample.task for sample in samples if sample.task.id == name)
    label = SandboxLabel(run_id="bench", attempt=AttemptKey(task_id=name, index=1))
    async with parts.environments.open(parts.requirements(task), label) as env:
        await parts.benchmark.prepare(task, env)
        await env.write_file("/tmp/patch.diff", patch.encode("utf-8", "surrogateescape"))
        await env.write_file("/eval.sh", script.encode())
        await _apply(env, GIT_APPLY_CMDS)
        await env.exec(CONDA)
        done = await env.exec(
            ["/bin/bash", "/eval.sh"],
            timeout_seconds=1800,
            merge_stderr=True,
            output_limit_kb=32 * 1024,
        )
        return done.stdout


async def _apply(env: Environment, commands: list[str]) -> None:
    for command in commands:
        if (await env.exec(f"{command} /tmp/patch.diff")).ok:
            return
    raise SystemExit("the official commands do not apply the patch")


if __name__ == "__main__":
    main()
