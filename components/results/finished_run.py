"""A run's folder that a user names, wherever it stands now."""

import json
from pathlib import Path

from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore


def open_run_folder(typed: str) -> RunStore:
    """The run in this folder; RequestError("RUN_DIR") if it holds none, or no attempt."""
    root = user_path(typed, "RUN_DIR").absolute()
    if not root.exists():
        raise RequestError("RUN_DIR", f"{root} does not exist")
    folder = RunFolder(root)
    if not root.is_dir():
        raise RequestError("RUN_DIR", f"{root} is not a folder", "give the folder of a run")
    if not folder.run_json.is_file():
        runs = sorted(path.parent for path in root.glob("*/run.json"))
        hint = f"did you mean {runs[-1]}?" if runs else "give the folder that a run printed last"
        raise RequestError("RUN_DIR", f"{root} holds no run (no run.json)", hint)
    if not any(folder.tasks.glob("*/detail.json")):
        raise RequestError("RUN_DIR", f"no attempt of {root} has ended yet", "let it run first")
    return RunStore(folder)


def remove_analysis(folder: Path) -> None:
    """Remove what an earlier analysis wrote there, and nothing else."""
    for path in folder.glob("*.json"):
        if _is_ours(path):
            _remove(path)
    _remove(folder / "analysis.md")


def _is_ours(path: Path) -> bool:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and {"analyzer", "findings"} <= set(document)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise AgentCompassError(
            Code.RESULTS_WRITE, f"cannot remove {path}: {error.strerror}"
        ) from error
