"""`agentcompass config docs`: every parameter of a component, from the component's own model."""

import json
from typing import TYPE_CHECKING

import click

from agentcompass.cli.families import FAMILY, family_of
from agentcompass.cli.run_command import StrictCommand
from agentcompass.cli.streams import put

if TYPE_CHECKING:
    from agentcompass.components.contracts.protocols import Component
    from agentcompass.components.execution.missing import Missing


@click.command("docs", cls=StrictCommand)
@click.argument("family", metavar=FAMILY)
@click.argument("component_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def config_docs(family: str, component_id: str, as_json: bool) -> int:
    """Explain every parameter of a component: type, default, meaning."""
    from dataclasses import asdict

    from agentcompass.cli.rendering.parameters import parameter_lines
    from agentcompass.components.configuration.parameter_docs import parameter_docs
    from agentcompass.components.execution.missing import missing
    from agentcompass.components.registry import registry

    listing = registry.find(family_of(family), component_id)
    component = registry.load(family_of(family), component_id)
    docs = parameter_docs(component.parameters)
    lacks = missing(family_of(family), component_id)
    if as_json:
        document = {
            "id": listing.id,
            "version": component.version,
            "origin": listing.origin,
            "summary": listing.summary,
            "requires": list(component.requires),
            "extra": component.extra,
            "missing": list(lacks.modules) if lacks else [],
            "parameters": [asdict(doc) for doc in docs],
        }
        put(json.dumps(document, ensure_ascii=False, indent=2))
        return 0
    put(f"{listing.id} (version {component.version}, {listing.origin}): {listing.summary}")
    if component.requires:
        put(_needs(component, listing.distribution, lacks))
    put("")
    for line in parameter_lines(docs):
        put(line)
    return 0


def _needs(component: "Component", distribution: str | None, lacks: "Missing | None") -> str:
    """`needs minisweagent (extra agentcompass[mini-swe-agent]); it is here`"""
    modules = ", ".join(component.requires)
    extra = f" (extra {distribution}[{component.extra}])" if component.extra else ""
    return f"needs {modules}{extra}; {lacks.way_out if lacks else 'installed'}"
