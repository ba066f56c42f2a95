"""Kill a run at random moments, resume it, and compare with the run nobody disturbed.

    python bench/kill.py [--kills 20] [--what client|server|both|database] [--tasks 20] [--k 3]

60 attempts (20 tasks, k=3): the agent takes 0.2-1 s (a scripted model), the judging about 0.2 s
(hidden tests in a fresh sandbox). After each kill the files tell what was scored and what had a
checkpoint; after all of it those must stand untouched, nothing may be missing, and the metrics
must equal the undisturbed run's but for times. `database`: each resume gets a new Prefect home.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from agentcompass.flows import server


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    kinds = ("client", "server", "both", "database")
    parser.add_argument("--what", choices=kinds, default="client")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PREFECT_HOME"] = str(Path(folder) / "prefect")
        trial = Trial(Path(folder), options)
        try:
            return trial.run()
        finally:
            server.stop()


class Trial:
    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self.random = random.Random(options.seed)
        self.data = folder / "tasks.jsonl"
        self.script = folder / "script.json"
        self._write_tasks()
        self.problems: list[str] = []

    def run(self) -> int:
        started = time.monotonic()
        whole = self._finish("whole", None)
        undisturbed = time.monotonic() - started
        kills, runs = 0, 0
        while kills < self.options.kills and runs < 2 + 2 * self.options.kills:
            # One run after another is killed until it is done; then the next run is begun.
            kills += self._killed_until_done(f"run{runs}", self.options.kills - kills, whole)
            runs += 1
            print(f"{kills} kills so far, {len(self.problems)} problems", flush=True)
        if kills < self.options.kills:
            self.problems.append(f"only {kills} of {self.options.kills} kills came in time")
        for problem in self.problems:
            print("PROBLEM", problem)
        print(
            f"{kills} kills of {self.options.what}: {len(self.problems)} problems; "
            f"undisturbed {undisturbed:.0f} s"
        )
        return 1 if self.problems else 0

    def _killed_until_done(self, name: str, most: int, whole: dict[str, Any]) -> int:
        kills, reuse, before = 0, None, State()
        while kills < most:
            run = self._start(name, reuse)
            self._wait_for_work(run, name, before)
            done = run.poll() is not None
            if not done:
                self._kill(run)
                kills += 1
            now = self._state(name)
            self._compare(f"{name} after kill {kills}", before, now)
            before, reuse = now, "latest"
            if done:
                break
        self._same(name, self._finish(name, reuse), whole)
        self._compare(f"{name} at the end", before, self._state(name))
        return kills

    def _wait_for_work(self, run: "subprocess.Popen[bytes]", name: str, before: "State") -> None:
        """Until it has finished something more, and a moment of chance."""
        while run.poll() is None and self._state(name).size <= before.size:
            time.sleep(0.1)
        time.sleep(self.random.uniform(0.0, 2.0))

    def _kill(self, run: "subprocess.Popen[bytes]") -> None:
        what = self.options.what
        if what in ("server", "both") and (state := server.status()) is not None:
            os.kill(state.pid, signal.SIGKILL)
        if what != "server":
            run.kill()
        run.wait(timeout=240)
        if what == "server" and run.returncode != 0:
            self.problems.append(f"exit {run.returncode} of a run whose server was killed")
        if what == "database":
            server.stop()
            os.environ["PREFECT_HOME"] = tempfile.mkdtemp(dir=self.folder)

    def _start(self, name: str, reuse: str | None) -> "subprocess.Popen[bytes]":
        words = ["run", "humaneval", "openai_chat", "scripted", "--json", "--progress", "none"]
        words += ["--run-name", name, "--k", str(self.options.k), "--task-concurrency", "12"]
        words += ["--benchmark-params", json.dumps({"data_path": str(self.data)})]
        words += ["--model-params", json.dumps({"script": str(self.script)})]
        words += ["--log-level", "ERROR", *(["--reuse", reuse] if reuse else [])]
        with (self.folder / "errors.txt").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "agentcompass", *words],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def _finish(self, name: str, reuse: str | None) -> dict[str, Any]:
        run = self._start(name, reuse)
        output, _ = run.communicate(timeout=400)
        if run.returncode != 0:
            errors = (self.folder / "errors.txt").read_text()[-2000:]
            self.problems.append(f"{name}: exit {run.returncode}: {errors}")
            return {}
        return dict(json.loads(output)["metrics"])

    def _state(self, name: str) -> "State":
        return State.read(self.folder / "results" / name)

    def _compare(self, when: str, before: "State", now: "State") -> None:
        for kind, old, new in (
            ("scored attempt", before.scored, now.scored),
            ("checkpoint", before.checkpoints, now.checkpoints),
        ):
            for key, mark in old.items():
                if key not in new:
                    self.problems.append(f"{when}: {kind} {key} is lost")
                elif new[key] != mark:
                    self.problems.append(f"{when}: {kind} {key} was made again")

    def _same(self, name: str, metrics: dict[str, Any], whole: dict[str, Any]) -> None:
        if _comparable(metrics) != _comparable(whole):
            self.problems.append(f"{name}: the metrics differ from the undisturbed run's")

    def _write_tasks(self) -> None:
        """Functions that add a number; the scripted answers are right for two tasks of three."""
        rows, rules = [], []
        for number in range(self.options.tasks):
            prompt = f'def add_{number}(x):\n    """Add {number}."""\n'
            test = f"def check(f):\n    import time\n    assert f(1) == {number + 1}\n"
            test = test.replace("time\n", "time\n    time.sleep(0.1)\n")
            rows.append(
                {
                    "task_id": f"Add/{number}",
                    "prompt": prompt,
                    "entry_point": f"add_{number}",
                    "canonical_solution": f"    return x + {number}\n",
                    "test": test,
                }
            )
            right = number if number % 3 else -1
            reply = {
                "content": f"```python\n{prompt}    return x + {right}\n```",
                "delay_seconds": 0.2 + 0.8 * (number % 5) / 4,
            }
            rules.append({"match": f"add_{number}\\(", "replies": [reply]})
        self.data.write_text("\n".join(map(json.dumps, rows)) + "\n")
        self.script.write_text(json.dumps({"rules": rules}))


class State:
    """What stands on disk in all runs under a name: marks of attempts and checkpoints."""

    def __init__(self) -> None:
        self.scored: dict[str, str] = {}
        self.checkpoints: dict[str, str] = {}

    @property
    def size(self) -> int:
        return len(self.scored) + len(self.checkpoints)

    @staticmethod
    def read(folder: Path) -> "State":
        """Every attempt that any run under the name has scored, newest first."""
        state = State()
        for run in sorted(folder.glob("*/*/"), reverse=True):
            for path in run.glob("tasks/*/detail.json"):
                for attempt in json.loads(path.read_bytes())["attempts"]:
                    if attempt["status"] == "scored":
                        key = f"{attempt['key']['task_id']} #{attempt['key']['index']}"
                        state.scored.setdefault(key, attempt["ended_at"])
            for path in run.glob("tasks/*/attempt-*/checkpoint.json"):
                key = f"{path.parent.parent.name} {path.parent.name}"
                mark = hashlib.sha256(path.read_bytes()).hexdigest()
                state.checkpoints.setdefault(key, mark)
        return state


def _comparable(metrics: dict[str, Any]) -> dict[str, Any]:
    """All but when it was, and which run paid for what."""
    apart = ("times", "started_at", "ended_at", "taken_over", "own_usage")
    return {k: v for k, v in metrics.items() if k not in apart}


if __name__ == "__main__":
    sys.exit(main())
