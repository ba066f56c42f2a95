"""What the Prefect UI asks for when a person starts a run: the request with the ids there are.

The schema is made when a flow is loaded or deployed, and lists what is registered then and there:
deploy again after installing a plugin.
"""

from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.registry import registry
from agentcompass.components.registry.registry import Family

CHOICES: dict[str, Family] = {
    "benchmark": "benchmarks",
    "harness": "harnesses",
    "environment": "environments",
}
"""Field of the request → family of the ids it may hold."""

EXAMPLES = {
    "benchmark": '{"limit": 5, "seed": 0}',
    "harness": '{"step_limit": 30}',
    "environment": '{"setup": {"image": "python:3.12"}}',
    "model": '{"temperature": 0.7}',
    "analysis_params": '{"analyzers": ["failures"]}',
    "provider_limits": '{"docker": 8}',
    "env_open_qps": '{"docker": 2}',
}
"""Of what stands in a field for JSON, or in the parameters of a component."""

WORDS = {"api": "API", "url": "URL", "params": "parameters", "dir": "folder", "dirs": "folders"}
UNITS = {"seconds": "seconds", "kb": "KB", "mb": "MB", "qps": "per second"}
"""Last word of a field's name → its unit."""


class RunForm:
    """Makes the JSON schema of a RunRequest a form; validation is the request's own."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        _legible(schema, handler, set())
        fields = handler.resolve_ref_schema(schema)["properties"]
        for name, family in CHOICES.items():
            if "$ref" in fields[name]:  # the shared schema of a choice becomes this field's own
                fields[name] = _choice(name, fields[name], family, handler)
        model = handler.resolve_ref_schema(_only_reference(fields["model"]))["properties"]
        model["id"] |= {"title": "Model id", "examples": ["scripted"]}
        model["base_url"] |= {"description": _URL, "pattern": r"^(?!\w+://[^/$]*@)"}
        model["params"]["description"] += f" As JSON: `{EXAMPLES['model']}`"
        model["api_key"] |= {"anyOf": [*_KEY_PLACES, {"type": "null"}]}
        return schema


RequestForm = Annotated[RunRequest, RunForm()]
"""A RunRequest, as the parameter of a flow."""


def _place(field: str, title: str, description: str, pattern: str, **more: str) -> dict[str, Any]:
    """A schema that takes a SecretReference which has this field; the other one is empty then."""
    name = {"type": "string", "title": "Name", "description": description, "pattern": pattern}
    name |= more
    return {"title": title, "type": "object", "properties": {field: name}, "required": [field]}


_KEY_PLACES = (
    _place(
        "env",
        "Variable",
        "An environment variable of the worker, in capitals.",
        "^[A-Z_][A-Z0-9_]*$",
    ),
    _place("block", "Secret block", "A Secret block (menu Blocks).", "^(?!sk-)[a-z0-9-]{1,40}$"),
    _place("env", "No key", "The endpoint wants no key.", "^none$", default="none"),
)
"""Names that hardly a key looks like: Prefect stores what is typed, so a key must be refused."""


_URL = "Of the model's API. Without user and password: Prefect stores what is typed here."


def _choice(
    name: str, field: dict[str, Any], family: Family, handler: GetJsonSchemaHandler
) -> dict[str, Any]:
    shared = handler.resolve_ref_schema(_only_reference(field))
    own = {key: value for key, value in field.items() if key != "$ref"}
    word = "env" if family == "environments" else registry.FIELDS[family]
    one_of = {
        "enum": list(registry.listings(family)),
        "title": f"{name.capitalize()} id",
        "type": "string",
    }
    params = {
        **shared["properties"]["params"],
        "description": f"As JSON: `{EXAMPLES[name]}`; all: `agentcompass config docs {word} ID`.",
    }
    return {**shared, **own, "properties": {"id": one_of, "params": params}}


def _legible(schema: dict[str, Any], handler: GetJsonSchemaHandler, seen: set[str]) -> None:
    """All the way down: titles in words, `Set` beside `None`, an example where JSON is typed."""
    if "$ref" in schema:
        if schema["$ref"] in seen:
            return
        seen.add(schema["$ref"])
        schema = handler.resolve_ref_schema(_only_reference(schema))
    for choice in schema.get("anyOf", ()):
        if choice != {"type": "null"}:
            choice["title"] = "Set"
        _legible(choice, handler, seen)
    for name, field in schema.get("properties", {}).items():
        field["title"] = _title(name)
        if name in EXAMPLES and field.get("type") == "object":
            field["description"] += f" As JSON: `{EXAMPLES[name]}`"
        _legible(field, handler, seen)


def _title(name: str) -> str:
    *words, last = name.split("_")
    unit = UNITS.get(last) if words else None
    text = " ".join(WORDS.get(word, word) for word in (words if unit else [*words, last]))
    return text[0].upper() + text[1:] + (f" ({unit})" if unit else "")


def _only_reference(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$ref": schema["$ref"]}
