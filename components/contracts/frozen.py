"""The shape of everything that crosses a boundary: frozen, and strict about unknown fields."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A record. A docstring under a field is that field's documentation (`config docs`)."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )
