"""`agentcompass list`: what is registered, without importing what is built in."""

import json
from typing import TYPE_CHECKING

import click

from agentcompass.cli.families import FAMILY, family_of
from agentcompass.cli.rendering.columns import columns
from agentcompass.cli.run_command import StrictCommand
from agentcompass.cli.streams import complain, put
from agentcompass.cli.values import TextValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentcompass.components.registry.registry import Family, Listing


@click.command("list", cls=StrictCommand)
@click.argument("family", metavar=FAMILY[:-1] + "|runs}")
@click.option(
    "--recipe-dir",
    "recipe_dirs",
    metavar="DIR",
    multiple=True,
    type=TextValue(empty=False),
    help="For recipes: a directory of them whose code you trust. Repeat for several.",
)
@click.option(
    "--results-dir",
    metavar="PATH",
    type=TextValue(empty=False),
    help="For runs: the root folder of their outputs.  [default: results]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def list_components(
    family: str, recipe_dirs: tuple[str, ...], results_dir: str | None, as_json: bool
) -> int:
    """List the registered components of a family: id, origin and what it is, one line each.

    A component of a plugin that cannot be used is left out, and named on stderr.

    `runs`: those in the results folder and at the Prefect API, newest first. States: running,
    finished, failed, timed out, interrupted, crashed (its process is gone); before a run begins,
    the API's own: scheduled, late, pending. The note says why it failed and what it was made from.
    """
    if family == "runs":
        from agentcompass.cli.list_runs import list_runs

        return list_runs(results_dir, as_json=as_json)
    found = list(_usable(family_of(family), recipe_dirs))
    if as_json:
        rows = [{"id": i.id, "origin": i.origin, "summary": i.summary} for i in found]
        put(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    for line in columns([(item.id, item.origin, item.summary) for item in found]):
        put(line)
    return 0


def _usable(family: "Family", typed: "Sequence[str]") -> "Iterator[Listing]":
    from agentcompass.components.contracts.errors import RequestError
    from agentcompass.components.registry import registry
    from agentcompass.components.registry.listing import OURS

    directories = _directories(typed) if family == "recipes" else ()
    for listing in registry.listings(family, directories).values():
        if listing.distribution != OURS:
            try:
                registry.load(family, listing.id, directories)
            except RequestError as error:
                complain(f"agentcompass: {error}; it is left out")
                continue
        yield listing


def _directories(typed: "Sequence[str]") -> "Sequence[str]":
    """Those of the user's configuration, and those named now."""
    from agentcompass.components.execution.configured import configured

    trusted = configured().section("runtime").get("recipe_dirs", ())
    return (*trusted, *typed)
