"""What users feel first: CPU seconds of `--help`, `list`, and of a run up to its first agent step.

    python bench/startup.py [--repeats 5]

Compiled files must be present (run it twice); a local server is started before measuring. Prints
the median of the child's CPU seconds (user + system), which a busy machine changes little.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

LIMITS = {"--help": 0.5, "list benchmark": 0.7, "first agent step": 6.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        for name, words in {
            "--help": ["--help"],
            "list benchmark": ["list", "benchmark"],
            "config docs": ["config", "docs", "benchmark", "gsm8k"],
        }.items():
            show(name, [cpu_of(words, folder) for _ in range(repeats)])
        subprocess.run([sys.executable, "-m", "agentcompass", "server", "start"], check=True)
        show("first agent step", [cpu_to_first_request(folder) for _ in range(repeats)])
        words = ["run", "quickstart", "idle", "scripted", "--progress", "none"]
        show("whole run, quickstart x idle", [cpu_of(words, folder) for _ in range(repeats)])


def show(name: str, seconds: list[float]) -> None:
    limit = f"  (limit {LIMITS[name]})" if name in LIMITS else ""
    print(f"{name:32} {statistics.median(seconds):6.2f} CPU s{limit}", flush=True)


def cpu_of(words: list[str], folder: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "agentcompass", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu_to_first_request(folder: str) -> float:
    """CPU of the client when its second request comes: the first is preflight's own."""
    asked, used = threading.Event(), [0.0]

    def answer(request: object) -> Reply:
        if len(endpoint.requests) >= 2 and not asked.is_set():
            used[0] = _cpu(client.pid)
            asked.set()
        return Reply(text="7")

    with ModelServer(answer) as endpoint:
        client = subprocess.Popen(
            [sys.executable, "-m", "agentcompass", "run", "quickstart", "openai_chat", "m"]
            + ["--model-base-url", endpoint.base_url, "--model-api-key", "none"]
            + ["--task-concurrency", "1", "--progress", "none"]
            + ["--benchmark-params", '{"limit": 1}'],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        client.wait(timeout=300)
    if not asked.is_set():
        raise SystemExit("the run never asked the model")
    return used[0]


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
