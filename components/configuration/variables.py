"""Environment variables as users give them: checked, and `${NAME}` read where they put it."""

from collections.abc import Mapping

from agentcompass.components.configuration.secrets import HELD_VARIABLE, REFERENCE, held_variable
from agentcompass.components.contracts.errors import RequestError


def resolved(
    variables: Mapping[str, str], shell: Mapping[str, str], field: str = "env-params.env"
) -> dict[str, str]:
    """Every value, references (a value that is exactly `${NAME}`) replaced from `shell`.

    Raises RequestError for a name no shell could set, and for a reference to an unset variable.
    """
    values = {}
    for name, value in variables.items():
        check_name(name, field)
        if reference := REFERENCE.fullmatch(value):
            value = from_shell(reference[1], shell, f"{field}.{name}")
        if "\0" in value:
            raise RequestError(f"{field}.{name}", "the value holds a NUL character")
        values[name] = value
    return values


def read_inside(
    variables: Mapping[str, str], shell: Mapping[str, str], field: str = "env-params.env"
) -> dict[str, str]:
    """Of a user's variables: references that stand inside a text replaced from `shell`. A value
    that is exactly one stays: it is read when a sandbox opens, and shown by its name until then."""

    found = {}
    for name, value in variables.items():
        place = f"{field}.{name}"
        whole = REFERENCE.fullmatch(value)
        found[name] = value if whole else _read(value, shell, place)
    return found


def _read(text: str, shell: Mapping[str, str], field: str) -> str:
    return REFERENCE.sub(lambda match: from_shell(match[1], shell, field), text)


def from_shell(name: str, shell: Mapping[str, str], field: str) -> str:
    """What this process holds under the name, else what the shell says."""
    if (held := held_variable(name)) is not None:
        return held
    if name not in shell and name.startswith(HELD_VARIABLE):
        raise RequestError(
            field, "its value was typed, and such secrets are not stored",
            f"give it again, or export {name}=… first",
        )  # fmt: skip
    if name not in shell:
        raise RequestError(field, f"variable {name} is not set", f"export {name}=… first")
    return shell[name]


def check_name(name: str, field: str) -> None:
    if not name or "=" in name or "\0" in name:
        raise RequestError(field, f"{name!r} is not a variable's name")
