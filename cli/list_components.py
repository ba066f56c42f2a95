"""`agentcompass list`: what is registered, without importing any of it."""

import json

import click

from agentcompass.cli.families import FAMILY, family_of
from agentcompass.cli.rendering.columns import columns
from agentcompass.cli.streams import put


@click.command("list")
@click.argument("family", metavar=FAMILY)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def list_components(family: str, as_json: bool) -> int:
    """List the registered components of a family: id, origin and what it is, one line each."""
    from agentcompass.components.registry.registry import listings

    found = listings(family_of(family)).values()
    if as_json:
        rows = [{"id": i.id, "origin": i.origin, "summary": i.summary} for i in found]
        put(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    for line in columns([(item.id, item.origin, item.summary) for item in found]):
        put(line)
    return 0
