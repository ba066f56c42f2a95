"""Import mini-SWE-agent without the side effects of its import, and only when it is needed.

Its import makes a folder in the user's configuration, reads secrets from a `.env` file there
into this process's environment, greets on the console and adds a console log handler.
"""

import importlib
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agentcompass.components.contracts.errors import RequestError


@dataclass(frozen=True)
class Library:
    """The parts in use."""

    version: str
    agent_class: Any
    exceptions: Any
    tool_calls: Any
    config: dict[str, Any]
    """Its `mini.yaml`: prompts for an agent with one tool, `bash`."""


_lock = threading.Lock()
_loaded: Library | None = None


def load() -> Library:
    """The library; raises RequestError naming the extra if it is not installed."""
    global _loaded
    with _lock:
        if _loaded is None:
            with _quiet_import():
                _loaded = _import()
        return _loaded


def _import() -> Library:
    import yaml

    try:
        package = importlib.import_module("minisweagent")
        agents = importlib.import_module("minisweagent.agents.default")
        exceptions = importlib.import_module("minisweagent.exceptions")
        tool_calls = importlib.import_module("minisweagent.models.utils.actions_toolcall")
    except ModuleNotFoundError as error:
        raise RequestError(
            "harness",
            f"mini_swe_agent needs the Python package {error.name!r}",
            "pip install 'agentcompass[mini-swe-agent]'",
        ) from error
    text = (package.package_dir / "config" / "mini.yaml").read_text(encoding="utf-8")
    return Library(
        version=package.__version__,
        agent_class=agents.DefaultAgent,
        exceptions=exceptions,
        tool_calls=tool_calls,
        config=yaml.safe_load(text),
    )


@contextmanager
def _quiet_import() -> Iterator[None]:
    before = os.environ.copy()
    with tempfile.TemporaryDirectory(prefix="agentcompass-mini-") as folder:
        os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = folder
        os.environ["MSWEA_SILENT_STARTUP"] = "1"
        try:
            yield
        finally:
            for name in ("MSWEA_GLOBAL_CONFIG_DIR", "MSWEA_SILENT_STARTUP"):
                os.environ.pop(name, None)
                if name in before:
                    os.environ[name] = before[name]
    logging.getLogger("minisweagent").handlers.clear()
