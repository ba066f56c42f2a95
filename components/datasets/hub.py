"""Read a public data set of the Hugging Face hub; once downloaded it is used without the network.

Layout under the data directory, one folder per data set:

    hub/<owner>--<name>/
      refs.json                the commit each revision name stood for when last asked
      <commit>/complete.json   pattern → {file: sha256}, written after every file has arrived
      <commit>/<file>          as in the data set's repository
"""

import fnmatch
import hashlib
import itertools
import json
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.errors import PreflightRefused, RequestError
from agentcompass.components.datasets.local import Located, parquet_rows

TRIES = 3
TRY_TIMEOUT_SECONDS = 4.0
WAITS_SECONDS = (0.5, 1.0)
"""Together below 15 s before a silent or failing hub is given up."""


@dataclass(frozen=True)
class HubSource:
    repository: str
    """Owner/name of the data set."""
    files: str
    """Glob of the split's Parquet files in it, e.g. `main/test-*.parquet`."""


class _Unreachable(Exception):
    """No answer, or only server errors, after all tries. The message says which."""


def read_hub(
    source: HubSource, revision: str | None, data_dir: Path
) -> tuple[str, Iterator[Located]]:
    """(commit, rows). With no `revision`: the copy at hand, else the newest.

    A copy at hand is used without any network call, unless `revision` is a branch or tag, which
    may have moved: then the hub is asked, and the copy serves when it does not answer.
    Raises PreflightRefused (refused, gated, unreachable) or RequestError (unknown revision).
    """
    store = _Store(data_dir / "hub" / source.repository.replace("/", "--"), source.files)
    wanted = revision or "main"
    is_commit = re.fullmatch(r"[0-9a-f]{40}", wanted) is not None
    at_hand = wanted if is_commit else store.commit_of(wanted)
    files = store.complete(at_hand) if at_hand else None
    if at_hand and files and (is_commit or revision is None):
        return at_hand, _rows(files)
    try:
        commit = _download(source, wanted, store)
    except _Unreachable as error:
        if at_hand and files:
            return at_hand, _rows(files)
        raise PreflightRefused(
            (
                f"data set {source.repository} is not under {data_dir} and the hub cannot be "
                f"reached ({error}): set benchmark-params.data_path to a local copy",
            )
        ) from None
    except OSError as error:
        raise PreflightRefused(
            (f"data set {source.repository} cannot be kept under {data_dir}: {error.strerror}",)
        ) from error
    return commit, _rows(store.complete(commit) or [])


def _rows(files: list[Path]) -> Iterator[Located]:
    return itertools.chain.from_iterable(parquet_rows(path) for path in files)


@dataclass(frozen=True)
class _Store:
    """One data set's folder."""

    folder: Path
    pattern: str

    def commit_of(self, name: str) -> str | None:
        commit = _json(self.folder / "refs.json").get(name)
        return commit if isinstance(commit, str) else None

    def complete(self, commit: str) -> list[Path] | None:
        """The files in order, or None if one is missing or not as it was downloaded."""
        record = _json(self.folder / commit / "complete.json").get(self.pattern, {})
        paths = [self.folder / commit / name for name in sorted(record)]
        intact = all(
            path.is_file() and _sha256(path) == record[name]
            for name, path in zip(sorted(record), paths, strict=True)
        )
        return paths if paths and intact else None

    def record(self, name: str, commit: str, files: list[str]) -> None:
        """Make the download count: first the files, then the name that leads to them."""
        complete, refs = self.folder / commit / "complete.json", self.folder / "refs.json"
        hashes = {file: _sha256(self.folder / commit / file) for file in files}
        _write_json(complete, {**_json(complete), self.pattern: hashes})
        if name != commit:
            _write_json(refs, {**_json(refs), name: commit})


def _download(source: HubSource, revision: str, store: _Store) -> str:
    """Fetch the split's files at `revision` into the store; returns the commit."""
    import huggingface_hub
    from huggingface_hub.utils import disable_progress_bars, logging

    logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        disable_progress_bars()
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
    hub = huggingface_hub.HfApi(endpoint=endpoint)
    repository = source.repository
    info: Any = _patiently(
        lambda: hub.dataset_info(repository, revision=revision, timeout=TRY_TIMEOUT_SECONDS),
        repository,
        revision,
    )
    names = [item.rfilename for item in info.siblings or ()]
    files = sorted(name for name in names if fnmatch.fnmatchcase(name, source.files))
    if not files:
        raise RequestError(
            "benchmark-params.revision",
            f"data set {repository} has no {source.files} at revision {revision!r}",
        )
    for file in files:
        _patiently(
            lambda file=file: hub.hf_hub_download(
                repository,
                file,
                repo_type="dataset",
                revision=info.sha,
                local_dir=store.folder / info.sha,
                force_download=True,  # what an interrupted download left is not trusted
                etag_timeout=TRY_TIMEOUT_SECONDS,
            ),
            repository,
            revision,
        )
    store.record(revision, info.sha, files)
    return str(info.sha)


def _patiently(call: Any, repository: str, revision: str) -> Any:
    """Call the hub; refusals end at once in one line, server errors and silence are retried."""
    from huggingface_hub.errors import HfHubHTTPError

    for wait in (*WAITS_SECONDS, None):
        try:
            return call()
        except Exception as error:  # its HTTP library's errors are not part of its promises
            # A refused download says what happened only in its cause.
            cause = error if isinstance(error, HfHubHTTPError) else error.__cause__ or error
        if isinstance(cause, HfHubHTTPError):
            status = cause.response.status_code
            if status < 500 and status not in (408, 429):
                raise _refusal(cause, repository, revision) from None
            reason = f"it answers {status}"
        elif _is_local(cause):
            raise cause
        else:
            reason = type(cause).__name__
        if wait is not None:
            time.sleep(wait)
    raise _Unreachable(reason)


def _is_local(error: BaseException) -> bool:
    """A full disk or a read-only folder is not the hub's fault."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    return (
        isinstance(error, OSError)
        and bool(error.errno)
        and not isinstance(error, ConnectionError | TimeoutError | OfflineModeIsEnabled)
    )


def _refusal(error: Any, repository: str, revision: str) -> Exception:
    """One line for a 4xx. Composed here: the client's own text may echo the request."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import GatedRepoError, RevisionNotFoundError

    status = error.response.status_code
    if isinstance(error, RevisionNotFoundError):
        return RequestError(
            "benchmark-params.revision", f"data set {repository} has no revision {revision!r}"
        )
    if isinstance(error, GatedRepoError):
        reason = "is gated: accept its terms on the hub and set HF_TOKEN to a token of that account"
    elif status in (401, 403) and get_token() is not None:
        reason = f"is refused ({status}): your token (HF_TOKEN or hub login) may not read it"
    elif status in (401, 403, 404):
        reason = (
            f"does not exist or is private ({status}): set HF_TOKEN to a token that may read it"
        )
    else:
        reason = f"is refused by the hub ({status})"
    return PreflightRefused(
        (f"data set {repository} {reason}, or set benchmark-params.data_path to a local copy",)
    )


def _json(path: Path) -> dict[str, Any]:
    """A JSON object; {} if missing or damaged (then the data is fetched again)."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, sort_keys=True)
    Path(temporary).replace(path)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
