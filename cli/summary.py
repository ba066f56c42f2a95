"""`agentcompass summary`: a run's numbers made again from its details."""

import json as json_text
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from agentcompass.cli.run_command import RunCommand
from agentcompass.cli.run_options import with_options
from agentcompass.cli.streams import complain, put
from agentcompass.cli.values import TextValue


@click.command("summary", cls=RunCommand)
@click.argument("run_dir", type=TextValue(empty=False))
@with_options("--json")
def summary(run_dir: str, json: bool) -> int:
    """Write metrics.json, attempts.parquet and summary.md of RUN_DIR again, and print the table.

    Made from the details in its folder, wherever that was copied to; calls nobody. The last line
    is the page to read.
    """
    from agentcompass.cli.rendering.results import result_lines
    from agentcompass.components.execution.rebuilding import rebuild
    from agentcompass.components.results.finished_run import open_run_folder

    store = open_run_folder(run_dir)
    with _warnings_as_lines():
        metrics = rebuild(store)
    if json:
        document = {"run_dir": str(store.folder.root), "metrics": metrics.model_dump(mode="json")}
        put(json_text.dumps({**document, "exit_code": 0}, ensure_ascii=False, allow_nan=False))
        return 0
    for line in result_lines(metrics):
        put(line)
    put(str(store.folder.summary_md))
    return 0


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """What the components warn of, in this program's words on stderr."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complain(f"agentcompass: {record.getMessage()}")

    ours, handler = logging.getLogger("agentcompass"), Lines(logging.WARNING)
    ours.addHandler(handler)
    try:
        yield
    finally:
        ours.removeHandler(handler)
