"""Records come back whole, upgraded and checked, or the reader learns which file is wrong."""

import json
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.invalid import first_problem
from agentcompass.components.results.upgrades import Document, Kind, UnknownVersion, upgrade

Model = TypeVar("Model", bound=BaseModel)


class DamagedRecord(RequestError):
    """A record of a run cannot be read. The file is left as it is."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__("results", f"{path}: {reason}")
        self.path, self.reason = path, reason

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.path, self.reason)


def read_record(path: Path, kind: Kind, model: type[Model]) -> Model | None:
    """The record in a file; None if there is no such file. Raises DamagedRecord."""
    document = read_document(path, kind)
    if document is None:
        return None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise DamagedRecord(path, first_problem(error)) from None
    except RecursionError:
        raise DamagedRecord(path, "nested too deeply") from None


def read_document(path: Path, kind: Kind) -> Document | None:
    """The JSON object in a file, upgraded; None if there is no such file. Raises DamagedRecord."""
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DamagedRecord(path, f"cannot be read: {error.strerror}") from error
    if not raw:
        raise DamagedRecord(path, "the file is empty")
    try:
        document = json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise DamagedRecord(path, f"not JSON: {str(error)[:120]}") from None
    if not isinstance(document, dict):
        raise DamagedRecord(path, f"holds a {type(document).__name__}, not an object")
    try:
        return upgrade(kind, document)
    except UnknownVersion as error:
        raise DamagedRecord(path, str(error)) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # upgrades check no shapes
        reason = f"holds no {kind} of schema_version {document.get('schema_version')!r}"
        raise DamagedRecord(path, reason) from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
