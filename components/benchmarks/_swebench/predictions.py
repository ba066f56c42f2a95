"""Patches of a run in the form that the official harness reads."""

import json
from collections.abc import Iterable, Mapping


def prediction(instance_id: str, model: str, patch: bytes) -> Mapping[str, str]:
    """One row. An empty patch stays "": the harness counts it as such."""
    return {
        "instance_id": instance_id,
        "model_name_or_path": model,
        "model_patch": patch.decode("utf-8", "surrogateescape"),
    }


def json_lines(predictions: Iterable[Mapping[str, str]]) -> bytes:
    """For `--predictions_path FILE.jsonl`. Bytes that are not UTF-8 travel as escaped halves."""
    return b"".join(json.dumps(row).encode("ascii") + b"\n" for row in predictions)


def json_object(predictions: Iterable[Mapping[str, str]]) -> bytes:
    """For `--predictions_path FILE.json`: by instance id, as `sb-cli` wants it."""
    rows = {row["instance_id"]: row for row in predictions}
    return json.dumps(rows, indent=1).encode("ascii") + b"\n"
