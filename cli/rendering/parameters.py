"""The table of `config docs`."""

import io
import shutil
import sys
from collections.abc import Sequence

from agentcompass.components.configuration.parameter_docs import ParameterDoc

PIPED_WIDTH = 120
NARROWEST = 60


def parameter_lines(docs: Sequence[ParameterDoc]) -> list[str]:
    """Name, type, default and meaning; long meanings wrap in their own column."""
    if not docs:
        return ["No parameters."]
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("parameter", overflow="fold", min_width=max(map(len, ["", *_names(docs)])))
    table.add_column("type", overflow="fold")
    table.add_column("default", overflow="fold")
    table.add_column("meaning", overflow="fold", ratio=1)
    for doc in docs:
        table.add_row(*(Text(cell) for cell in (doc.name, doc.type, doc.default, doc.meaning)))
    console = Console(file=io.StringIO(), width=_width(), color_system=None, force_terminal=False)
    with console.capture() as printed:
        console.print(table)
    return [line.rstrip() for line in printed.get().splitlines()]


def _names(docs: Sequence[ParameterDoc]) -> list[str]:
    return [doc.name for doc in docs if len(doc.name) <= 40]


def _width() -> int:
    if not sys.stdout.isatty():
        return PIPED_WIDTH
    return max(NARROWEST, shutil.get_terminal_size().columns)
