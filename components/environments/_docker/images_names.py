"""Names of images: what to pull, which registry is meant, which digest is the name's own."""

import re
from collections.abc import Sequence

_ID = re.compile(r"(sha256:)?[0-9a-f]{64}")
HUB = "docker.io"


def pull_name(name: str) -> str | None:
    """What a registry is asked for: with a digest the tag means nothing; None: an image's id."""
    if _ID.fullmatch(name):
        return None
    repository, at, digest = name.partition("@")
    return f"{_without_tag(repository)}@{digest}" if at else name


def registry_of(name: str) -> str:
    """Host (and port) of the registry, by the rule of the docker command."""
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return HUB if first in (f"index.{HUB}", f"registry-1.{HUB}") else first
    return HUB


def digest_of(name: str, digests: Sequence[str], image_id: str) -> str:
    """The one pinned, else the one of the same repository, else any, else the image's id."""
    repository, _, pinned = name.partition("@")
    wanted = _full(_without_tag(repository))
    own = [one for one in digests if _full(one.partition("@")[0]) == wanted]
    exact = [one for one in own if pinned and one.endswith(f"@{pinned}")]
    return next(iter((*exact, *own, *digests)), image_id)


def _without_tag(repository: str) -> str:
    head, colon, tag = repository.rpartition(":")
    return head if colon and "/" not in tag else repository


def _full(repository: str) -> str:
    """`ubuntu` is docker.io/library/ubuntu."""
    registry = registry_of(repository)
    rest = repository
    if registry != HUB or repository.startswith((f"{HUB}/", f"index.{HUB}/", "registry-1.")):
        rest = repository.partition("/")[2]
    if registry == HUB and "/" not in rest:
        rest = f"library/{rest}"
    return f"{registry}/{rest}"
