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


class RegisteredIds:
    """Puts the ids into the JSON schema of a RunRequest; validation is the request's own."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        fields = handler.resolve_ref_schema(schema)["properties"]
        for name, family in CHOICES.items():
            field = fields[name]
            if "$ref" in field:  # the shared schema of a choice becomes this field's own
                fields[name] = self._choice(field, family, handler)
        model = fields["model"]
        if "$ref" in model:
            resolved = handler.resolve_ref_schema({"$ref": model["$ref"]})
            resolved["properties"]["id"].setdefault("examples", ["scripted"])
        return schema

    def _choice(
        self, field: dict[str, Any], family: Family, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        shared = handler.resolve_ref_schema({"$ref": field["$ref"]})
        own = {key: value for key, value in field.items() if key != "$ref"}
        one_of = {
            "enum": list(registry.listings(family)),
            "title": f"{registry.FIELDS[family].capitalize()} id",
            "type": "string",
        }
        params = {
            **shared["properties"]["params"],
            "title": "Parameters",
            "description": f"As JSON; all: agentcompass config docs {_word(family)} ID.",
        }
        return {
            **shared,
            "title": registry.FIELDS[family].capitalize(),
            **own,
            "properties": {"id": one_of, "params": params},
        }


def _word(family: Family) -> str:
    return "env" if family == "environments" else registry.FIELDS[family]


RequestForm = Annotated[RunRequest, RegisteredIds()]
"""A RunRequest, as the parameter of a flow."""
