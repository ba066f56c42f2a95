"""The page of each component, from its parameter model and docstring, and the index of them all."""

import inspect
import sys
from collections.abc import Iterable

from pydantic import BaseModel

from agentcompass.cli.families import FAMILIES
from agentcompass.components.configuration.parameter_docs import (
    REQUIRED,
    ParameterDoc,
    parameter_docs,
)
from agentcompass.components.contracts.parameters import BenchmarkParameters, EnvironmentParameters
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.run import ExecutionSettings, RuntimeSettings
from agentcompass.components.registry import registry
from agentcompass.components.registry.registry import FIELDS, Family, Listing
from docs.markdown import NOTICE, escaped, page, table

SHARED: dict[Family, type[BaseModel]] = {
    "benchmarks": BenchmarkParameters,
    "environments": EnvironmentParameters,
}
"""What all components of a family understand."""

OPTION: dict[Family, str] = {
    "benchmarks": "`--benchmark-params`",
    "harnesses": "`--harness-params`",
    "environments": "`--env-params`",
    "models": "`--model-params`",
    "analyzers": "`--analysis-params`, under the analyzer's id",
}
"""Where the parameters of a component are given. A recipe has none."""


def component_pages() -> dict[str, str]:
    """File name below docs/ → content."""
    pages = {"components.md": _index()}
    for family in FIELDS:
        for listing in _built_in(family):
            pages[_file(family, listing.id)] = _page(family, listing)
    return pages


def _index() -> str:
    parts = ["# Components\n", NOTICE]
    for family, name in FIELDS.items():
        rows = [
            (f"[`{one.id}`]({_file(family, one.id)})", one.summary) for one in _built_in(family)
        ]
        parts += [f"## {_plural(name).capitalize()}\n", table(("id", "what it is"), rows)]
    parts += [
        "## Execution parameters\n",
        "Deadlines, retries and limits of an attempt: `--execution-params`, or `execution:` in a "
        "[configuration file](configuration.md).\n",
        _parameters(parameter_docs(ExecutionSettings)),
        "## Runtime parameters\n",
        "Where a run lives and how it talks: options of [`agentcompass run`](commands/run.md), or "
        "`runtime:` in a configuration file. None of them changes a result.\n",
        _parameters(parameter_docs(RuntimeSettings)),
    ]
    return page(*parts)


def _page(family: Family, listing: Listing) -> str:
    component = registry.load(family, listing.id)
    names = _plural(FIELDS[family])
    return page(
        f"# `{listing.id}`\n",
        NOTICE,
        f"{escaped(listing.summary)}.\n",
        escaped(_description(listing)),
        f"One of the [{names}](../../components.md#{names.replace(' ', '-')}); "
        f"version {component.version}, {listing.origin}.\n",
        _needs(component),
        *_tables(family, component.parameters),
        f"The same in a terminal: `agentcompass config docs {_word(family)} {listing.id}`.\n",
    )


def _description(listing: Listing) -> str:
    """Its file's docstring below the first line."""
    module = sys.modules[listing.module.partition(":")[0]]
    return inspect.cleandoc(module.__doc__ or "").partition("\n")[2].strip("\n")


def _needs(component: Component) -> str:
    if not component.requires:
        return ""
    modules = ", ".join(f"`{name}`" for name in component.requires)
    bring = f"`pip install 'agentcompass[{component.extra}]'`" if component.extra else ""
    return f"Needs {modules}{f': {bring}' if bring else ''}.\n"


def _tables(family: Family, model: type[BaseModel]) -> Iterable[str]:
    rows = parameter_docs(model)
    if not rows:
        return ["It has no parameters.\n"]
    shared = {doc.name for doc in parameter_docs(SHARED[family])} if family in SHARED else set()
    own = [doc for doc in rows if doc.name not in shared]
    common = [doc for doc in rows if doc.name in shared]
    parts = [f"## Parameters\n\nGiven with {OPTION[family]}.\n"] if own else []
    parts.append(_parameters(own))
    if common:
        owners = _plural(FIELDS[family])
        parts.append(f"## Parameters of all {owners}\n\nGiven with {OPTION[family]}, too.\n")
        parts.append(_parameters(common))
    return parts


def _parameters(rows: Iterable[ParameterDoc]) -> str:
    cells = [(f"`{doc.name}`", doc.type, _default(doc), doc.meaning) for doc in rows]
    return table(("parameter", "type", "default", "meaning"), cells)


def _default(doc: ParameterDoc) -> str:
    """No JSON begins like `required`."""
    return doc.default if doc.default.startswith(REQUIRED) else f"`{doc.default}`"


def _built_in(family: Family) -> list[Listing]:
    """Whatever else this Python environment holds is not ours to document."""
    return [one for one in registry.listings(family).values() if one.origin == "built in"]


def _file(family: Family, component_id: str) -> str:
    return f"components/{family}/{component_id}.md"


def _plural(name: str) -> str:
    return f"{name}es" if name.endswith("s") else f"{name}s"


def _word(family: Family) -> str:
    """What the command line calls the family."""
    return next(word for word, named in FAMILIES.items() if named == family)
