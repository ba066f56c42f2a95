"""Many attempts through one client: are the slots busy, do memory and handles stay flat?

    python bench/scale.py [--attempts 1000] [--concurrency 64] [--handles N] [--reply-kb N]

Each attempt is one scripted reply of 0.5 s, judged without a sandbox. Watched from outside: the
client's memory and open handles (/proc), and how many attempts run (progress.json).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--handles", type=int, help="ulimit -n of the client")
    parser.add_argument("--reply-kb", type=int, default=0, help="size of each reply")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PREFECT_HOME"] = str(Path(folder) / "prefect")
        agentcompass = [sys.executable, "-m", "agentcompass"]
        subprocess.run([*agentcompass, "server", "start"], check=True)
        try:
            return watch(Path(folder), options)
        finally:
            subprocess.run([*agentcompass, "server", "stop"], check=True)


def watch(folder: Path, options: argparse.Namespace) -> int:
    client = start(folder, options)
    run_dir = folder / "results/scripted__gsm8k__openai_chat/scale"
    running, memory, handles = [], {}, 0
    started = time.monotonic()
    while client.poll() is None:
        time.sleep(0.2)
        progress = read(run_dir / "progress.json")
        scored = progress.get("scored", 0)
        try:
            memory[scored] = memory_mb(client.pid)
            handles = max(handles, len(list(Path(f"/proc/{client.pid}/fd").iterdir())))
        except OSError:
            break
        if 2 * options.concurrency < scored < options.attempts - 2 * options.concurrency:
            running.append(progress["running"])
    client.wait()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)  # with the start of the server, 1 s
    early = next((mb for scored, mb in memory.items() if scored >= 100), 0.0)
    busy = statistics.mean(running) / options.concurrency if running else 0.0
    print(
        f"exit {client.returncode}; wall {time.monotonic() - started:.0f} s; client CPU "
        f"{1000 * (usage.ru_utime + usage.ru_stime) / options.attempts:.0f} ms an attempt; "
        f"slots busy {100 * busy:.0f} %; memory {early:.0f} MB at 100, "
        f"most {max(memory.values()):.0f} MB; most handles {handles}"
    )
    return client.returncode


def start(folder: Path, options: argparse.Namespace) -> "subprocess.Popen[bytes]":
    data, script = folder / "data.jsonl", folder / "script.json"
    rows = [{"question": f"question {n}?", "answer": "#### 1"} for n in range(options.attempts)]
    data.write_text("\n".join(map(json.dumps, rows)))
    reply = {"content": "x" * 1024 * options.reply_kb + "\n#### 1", "delay_seconds": 0.5}
    script.write_text(json.dumps({"default": [reply]}))
    words = ["run", "gsm8k", "openai_chat", "scripted", "--run-id", "scale", "--progress", "none"]
    words += ["--task-concurrency", str(options.concurrency), "--log-level", "ERROR"]
    words += ["--benchmark-params", json.dumps({"data_path": str(data)})]
    words += ["--model-params", json.dumps({"script": str(script)})]

    def limit() -> None:
        if options.handles:
            resource.setrlimit(resource.RLIMIT_NOFILE, (options.handles, options.handles))

    return subprocess.Popen(
        [sys.executable, "-m", "agentcompass", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        preexec_fn=limit,
    )


def read(path: Path) -> dict[str, int]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    sys.exit(main())
