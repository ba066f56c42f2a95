"""`agentcompass env`: sandboxes that dead runs left behind, or that were kept on purpose."""

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from agentcompass.cli.failed import CommandFailed
from agentcompass.cli.lazy_group import Entry, LazyGroup
from agentcompass.cli.rendering.columns import columns
from agentcompass.cli.run_command import StrictCommand
from agentcompass.cli.streams import complain, put
from agentcompass.cli.values import JsonObject
from agentcompass.components.contracts.errors import RequestError

if TYPE_CHECKING:
    from agentcompass.components.execution.leftovers import Found, Search

HEADER = ("environment", "id", "age", "run", "task", "purpose", "owner")

_environment = click.option(
    "--env", "environments", metavar="ID", multiple=True, help="Only this environment. Repeatable."
)
_params = click.option(
    "--env-params",
    type=JsonObject(),
    help="How to reach the one environment of --env (agentcompass config docs env ID).",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


_HELP = """\
List or remove sandboxes that dead runs left behind.

Environments are reached as runs from this directory reach them, by the configuration files.
Only what carries AgentCompass's own label is looked at, and nothing of living runs. A run
removes by itself what dead runs of this machine left; what --keep-environment kept stays
until `env clean --kept`.
"""

env = LazyGroup(
    "env",
    help=_HELP,
    entries={
        "list": Entry("agentcompass.cli.env:list_left", "Show what is left."),
        "clean": Entry("agentcompass.cli.env:clean", "Remove what is left."),
    },
)


@click.command("list", cls=StrictCommand)
@_environment
@_params
@_json
def list_left(
    environments: tuple[str, ...], env_params: dict[str, Any] | None, as_json: bool
) -> int:
    """Show what is left: environment, id, age, run, task, purpose, owner."""
    search = asyncio.run(_search(environments, env_params))
    if as_json:
        rows = [_document(found) for found in search.found]
        put(json.dumps({"leftovers": rows, "not_asked": dict(search.not_asked)}))
        return 0
    cells = [_cells(found) for found in search.found]
    for line in columns([HEADER, *cells] if cells else []):
        put(line)
    if not search.found:
        put("nothing is left" + (" in the others" if search.not_asked else ""))
    return 0


@click.command("clean", cls=StrictCommand)
@_environment
@_params
@click.option("--id", "ids", metavar="ID", multiple=True, help="Only this sandbox. Repeatable.")
@click.option("--run", "run_id", metavar="RUN-ID", help="Only what this run left.")
@click.option("--kept", is_flag=True, help="Also what --keep-environment kept.")
@_json
def clean(
    environments: tuple[str, ...],
    env_params: dict[str, Any] | None,
    ids: tuple[str, ...],
    run_id: str | None,
    kept: bool,
    as_json: bool,
) -> int:
    """Remove what is left; exit code 1 if something could not be removed."""

    def chosen(found: "Found") -> bool:
        wanted = found.leftover.id in ids if ids else kept or not found.leftover.kept
        return wanted and run_id in (None, found.leftover.run_id)

    search, outcomes = asyncio.run(_clean(environments, env_params, chosen))
    known = {found.leftover.id for found in search.found}
    if missing := sorted(set(ids) - known):
        raise CommandFailed(f"no such sandbox: {', '.join(missing)} (agentcompass env list)")
    removed = [found for found, gone in outcomes if gone]
    failed = [found for found, gone in outcomes if not gone]
    if as_json:
        document = {
            "removed": [_document(found) for found in removed],
            "failed": [_document(found) for found in failed],
            "not_asked": dict(search.not_asked),
        }
        put(json.dumps(document))
        return 1 if failed else 0
    put(f"removed {len(removed)} of {len(outcomes)}" if outcomes else "nothing to remove")
    if left := sum(found.leftover.kept for found in search.found if not chosen(found)):
        put(f"{left} kept on purpose (to remove them: --kept)")
    for found in failed:
        complain(f"could not be removed: {' '.join(_cells(found))}")
    return 1 if failed else 0


async def _clean(
    environments: tuple[str, ...], env_params: dict[str, Any] | None, chosen: Any
) -> "tuple[Search, list[tuple[Found, bool]]]":
    search = await _search(environments, env_params)
    rows = [found for found in search.found if chosen(found)]
    gone = await asyncio.gather(*(found.remove() for found in rows))
    return search, list(zip(rows, gone, strict=True))


async def _search(environments: tuple[str, ...], env_params: dict[str, Any] | None) -> "Search":
    from agentcompass.components.configuration.merging import merged
    from agentcompass.components.execution import leftovers
    from agentcompass.components.execution.configured import configured
    from agentcompass.components.registry import registry

    for name in environments:
        registry.find("environments", name)
    if env_params and len(environments) != 1:
        raise RequestError("env-params", "belongs to one environment", "name it with --env")
    files = configured()
    search = await leftovers.find(
        {
            name: merged(files.section("environments", name), env_params or {})
            for name in environments or registry.listings("environments")
        }
    )
    for name in environments:
        if name in search.not_asked:
            raise CommandFailed(f"{name} cannot be asked: {search.not_asked[name]}")
    if search.not_asked:
        silent = ", ".join(sorted(search.not_asked))
        complain(f"not asked: {silent} (why: agentcompass env list --env ID)")
    return search


def _cells(found: "Found") -> tuple[str, ...]:
    one = found.leftover
    purpose = f"{one.purpose} (kept)" if one.kept else one.purpose
    age = _age(one.created_at)
    return found.environment_id, one.id, age, one.run_id, one.task_id, purpose, one.owner


def _document(found: "Found") -> dict[str, Any]:
    return {"environment": found.environment_id, **found.leftover.model_dump(mode="json")}


def _age(created_at: datetime | None) -> str:
    """In the largest unit that fits: `3 h`."""
    if created_at is None:
        return "?"
    seconds = max(0.0, (datetime.now(UTC) - created_at).total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
