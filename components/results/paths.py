"""The results tree: what a run leaves on disk, and where.

    results/[run-name/]<model>__<benchmark>__<harness>/<run-id>/
      run.json              the resolved request (no secrets), versions, fingerprints, the tasks
      progress.json         counts, for any tool that polls
      lease.json            locked by the process that works in the run, and tells which it is
      tasks/<task>/
        detail.json         the complete record of a task: all its attempts
        attempt-<i>/        the first execution of attempt i
          checkpoint.json   what the agent left, before it was judged
          trajectory.json   the agent's steps (ATIF)
          artifacts/        files captured from the sandbox
          verification/     what the grader left
          log.txt
          retries/<n>/      the same again for its n-th execution (n = 2, 3, …), so that nothing
                            of one execution can be taken for another's
      metrics.json          every number of the summary
      attempts.parquet      one row an attempt
      summary.md            what a person reads
      rescored.json         only of a run that judged another one's work again: what changed
      predictions.jsonl     and the like: what the benchmark exports
      analysis/             one JSON per analyzer, analysis.md
      report.html
      logs/run.log
      .prefect/             Prefect's cache records, one per stage; the files above decide

Model, benchmark, harness and task ids are mapped by `names.safe_name` (namespace: by
`names.namespace_part`); run name and run id are the user's and stand as typed, or are refused.
"""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.results.names import check_user_name, namespace_part, safe_name
from agentcompass.components.results.writing import make_folder, sync_folder, unwritable

__all__ = [
    "RunFolder",
    "check_results_dir",
    "check_run_id",
    "check_run_name",
    "namespace",
    "reserve",
    "safe_name",
]


@dataclass(frozen=True)
class RunFolder:
    """Every path of one run. Computes names only: nothing is created or read."""

    root: Path

    @property
    def run_id(self) -> str:
        return self.root.name

    @property
    def run_json(self) -> Path:
        return self.root / "run.json"

    @property
    def progress_json(self) -> Path:
        return self.root / "progress.json"

    @property
    def lease(self) -> Path:
        return self.root / "lease.json"

    @property
    def stages(self) -> Path:
        return self.root / ".prefect"

    @property
    def metrics_json(self) -> Path:
        return self.root / "metrics.json"

    @property
    def summary_md(self) -> Path:
        return self.root / "summary.md"

    @property
    def rescored_json(self) -> Path:
        return self.root / "rescored.json"

    @property
    def attempts_parquet(self) -> Path:
        return self.root / "attempts.parquet"

    @property
    def analysis(self) -> Path:
        return self.root / "analysis"

    @property
    def report_html(self) -> Path:
        return self.root / "report.html"

    @property
    def log(self) -> Path:
        return self.root / "logs" / "run.log"

    @property
    def tasks(self) -> Path:
        return self.root / "tasks"

    def task(self, task_id: str) -> Path:
        return self.tasks / safe_name(task_id)

    def detail(self, task_id: str) -> Path:
        return self.task(task_id) / "detail.json"

    def attempt(self, key: AttemptKey) -> Path:
        """The folder of one execution; each physical attempt has its own."""
        first = self.task(key.task_id) / f"attempt-{key.index}"
        return first if key.physical == 1 else first / "retries" / str(key.physical)

    def checkpoint(self, key: AttemptKey) -> Path:
        return self.attempt(key) / "checkpoint.json"

    def trajectory(self, key: AttemptKey) -> Path:
        return self.attempt(key) / "trajectory.json"

    def artifacts(self, key: AttemptKey) -> Path:
        return self.attempt(key) / "artifacts"

    def verification(self, key: AttemptKey) -> Path:
        return self.attempt(key) / "verification"

    def attempt_log(self, key: AttemptKey) -> Path:
        return self.attempt(key) / "log.txt"


def namespace(results_dir: Path, run_name: str, model: str, benchmark: str, harness: str) -> Path:
    """The folder of all runs of this model, benchmark and harness; creates nothing.

    Different (model, benchmark, harness) never share a folder. Raises RequestError("run-name").
    """
    check_run_name(run_name)
    parts = "__".join(namespace_part(part) for part in (model, benchmark, harness))
    return results_dir / run_name / parts if run_name else results_dir / parts


def check_run_name(run_name: str) -> None:
    """Raises RequestError("run-name") for what cannot be one folder's name; "" is no run name."""
    if not run_name:
        return
    check_user_name("run-name", run_name)
    if run_name.count("__") >= 2:
        raise RequestError(
            "run-name", f"{run_name!r} reads like a model__benchmark__harness folder", "rename it"
        )


def check_run_id(run_id: str) -> None:
    """Raises RequestError("run-id") for what cannot be one folder's name; "" is made by us."""
    if run_id:
        check_user_name("run-id", run_id)


def check_results_dir(path: Path) -> None:
    """Raises RequestError("results-dir") if results could not be written there; creates nothing."""
    try:
        nearest = next(place for place in (path, *path.absolute().parents) if _there(place))
        folder, writable = nearest.is_dir(), os.access(nearest, os.W_OK | os.X_OK)
    except (OSError, ValueError) as error:  # a NUL, a name too long, a loop of links
        raise RequestError("results-dir", f"{str(path)!r} cannot be used: {error}") from error
    if not folder:
        raise RequestError("results-dir", f"{nearest} is not a folder", "give another path")
    if not writable:
        raise RequestError("results-dir", f"{nearest} is not writable", "give another path")


def reserve(namespace: Path, run_id: str, started: datetime) -> RunFolder:
    """Create the folder of a new run, for this caller alone.

    A given `run_id` that exists is RequestError("run-id"). An empty one becomes the start time,
    `YYYYMMDD_HHMMSS`, with `_2`, `_3`, … for runs that begin within the same second.
    """
    check_run_id(run_id)
    _make_namespace(namespace)
    name, count = run_id or started.strftime("%Y%m%d_%H%M%S"), 1
    while True:
        root = namespace / (name if count == 1 else f"{name}_{count}")
        try:
            root.mkdir()  # the one who makes it owns it, across processes and machines
            sync_folder(namespace)
        except FileExistsError:
            if run_id:
                raise RequestError(
                    "run-id", f"{run_id!r} exists already in {namespace}", "choose another"
                ) from None
            count += 1
        except OSError as error:
            raise unwritable(root, error) from error
        else:
            return RunFolder(root)


def _there(place: Path) -> bool:
    try:
        place.lstat()  # a dangling link is in the way, too
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _make_namespace(namespace: Path) -> None:
    try:
        make_folder(namespace)
    except (FileExistsError, NotADirectoryError) as error:
        raise RequestError(
            "results-dir", f"{error.filename} is not a folder", "give another path"
        ) from error
    except OSError as error:
        raise unwritable(namespace, error) from error
