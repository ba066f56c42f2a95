"""What a sandbox is made of: image, resources, network. A task asks for it, recipes and
`--env-params` change it, a provider opens it."""

import re
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from agentcompass.components.contracts.frozen import Frozen

SandboxPhase = Literal["baseline", "run", "evaluation"]
"""`baseline`: from opening until the task is prepared; `run`: the agent works, and what it left is
collected; `evaluation`: the grader works."""

_HOST = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_ADDRESS = re.compile(r"[0-9a-f]*:[0-9a-f:.]*(/[0-9]+)?|[0-9.]+(/[0-9]+)?")
"""Or what looks like one: a name has a letter in it."""


def _host(text: str) -> str:
    host, _, port = text.strip().lower().rstrip(".").rpartition(":")
    if not host or not port.isdigit() or ":" in host:  # no port, or an IPv6 address
        host, port = text.strip().lower().rstrip("."), ""
    known = _is_address(host) if _ADDRESS.fullmatch(host) else bool(_HOST.fullmatch(host))
    if not known or (port and int(port) > 65535):
        raise ValueError(
            f"{text!r} is not a host (give a name, *.name, an address or a range of addresses, "
            "each with :port if wanted)"
        )
    return f"{host}:{int(port)}" if port else host


def _is_address(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


Host = Annotated[str, AfterValidator(_host)]
"""Lower case: `pypi.org`, `*.pypi.org` (names under it, not itself), `10.0.0.0/8`, `::1`, each
with an optional `:port`."""


class AllowedHosts(Frozen):
    """Nothing but these is reachable."""

    allow: tuple[Host, ...]
    """`pypi.org`, `*.pypi.org` (names under it), `10.0.0.0/8`, each with `:port` if wanted."""


class DeniedHosts(Frozen):
    """Everything but these is reachable."""

    deny: tuple[Host, ...]
    """As under `allow`."""


def _absolute(path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/") or not path.isprintable():
        raise ValueError("give an absolute path without ..")
    return path.rstrip("/") or "/"


Workdir = Annotated[str, AfterValidator(_absolute)]
Image = Annotated[str, Field(min_length=1, pattern=r"^[^\s]+$")]


def _policy(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """One message for the whole union."""
    if isinstance(value, Mapping) and len(value) == 1:
        for model in (AllowedHosts, DeniedHosts):
            if set(value) == set(model.model_fields):
                return model.model_validate(value)
    if isinstance(value, AllowedHosts | DeniedHosts) or value in ("public", "none"):
        return value
    raise ValueError("give public, none, {allow: [hosts]} or {deny: [hosts]}")


NetworkPolicy = Annotated[
    Literal["public", "none"] | AllowedHosts | DeniedHosts, WrapValidator(_policy)
]
NetworkKind = Literal["none", "allow", "deny"]


def network_kind(policy: NetworkPolicy) -> NetworkKind | None:
    """What a provider must be able to enforce; None for `public`."""
    match policy:
        case "public":
            return None
        case "none":
            return "none"
        case AllowedHosts():
            return "allow"
        case DeniedHosts():
            return "deny"


class Network(Frozen):
    """What the sandbox reaches, phase by phase."""

    baseline: NetworkPolicy = "public"
    """While the sandbox is set up and the task prepared: `public`, `none`, {allow: [hosts]} or
    {deny: [hosts]}."""
    run: NetworkPolicy | None = None
    """While the agent works; unset: as baseline."""
    evaluation: NetworkPolicy | None = None
    """While the grader works; unset: as baseline."""

    def during(self, phase: SandboxPhase) -> NetworkPolicy:
        wanted = {"baseline": None, "run": self.run, "evaluation": self.evaluation}[phase]
        return self.baseline if wanted is None else wanted


class Resources(Frozen):
    """Limits of one sandbox; unset: the provider's own."""

    cpus: Annotated[float, Field(gt=0)] | None = None
    """Cores, fractions allowed."""
    memory_mb: Annotated[int, Field(ge=16)] | None = None
    """Over it, what takes the memory is killed."""
    disk_mb: Annotated[int, Field(ge=1)] | None = None
    """What may be written."""
    gpus: Annotated[int, Field(ge=1)] | None = None
    """Graphics cards."""
    pids: Annotated[int, Field(ge=16)] | None = None
    """Processes and threads at once."""


ResourceName = Literal["cpus", "memory_mb", "disk_mb", "gpus", "pids"]


class Build(Frozen):
    """An image made here from a Dockerfile. The same content is built once."""

    context: str
    """Local folder that COPY reads from."""
    dockerfile: str = "Dockerfile"
    """Relative to the context."""


class Setup(Frozen):
    """What the sandbox is opened with. What is set here wins over the task and recipes."""

    image: Image | None = None
    """Container image; `name@sha256:…` pins it."""
    build: Build | None = None
    """Build the image from a Dockerfile instead."""
    build_timeout_seconds: Annotated[float, Field(gt=0)] | None = None
    """For building the image; unset: 600, or what the task says."""
    commands: tuple[str, ...] | None = None
    """Shell lines run once the sandbox is open, in order, before the task is prepared; one that
    fails fails the set-up."""
    files: Mapping[str, str] | None = None
    """Path in the sandbox (relative: from the workdir) → local file or folder, put there before
    `commands` run."""
    workdir: Workdir | None = None
    """Absolute directory where the agent works; made if missing."""
    platform: str | None = None
    """Such as `linux/arm64`; unset: the engine's own."""
    os: Literal["linux"] = "linux"
    """Of the sandbox."""

    @model_validator(mode="after")
    def _one_image(self) -> "Setup":
        if self.image is not None and self.build is not None:
            raise ValueError("give image or build, not both")
        return self


class Requirements(Frozen):
    """What a sandbox must offer for a task. Recipes and `--env-params` change it."""

    image: Image | None = None
    """Container image; ignored by `host_process`."""
    build: Build | None = None
    """Instead of an image."""
    image_needed: bool = False
    """Without an image the task makes no sense (it owns places such as /tests): an environment
    that has none is refused."""
    build_timeout_seconds: float = 600.0
    commands: tuple[str, ...] = ()
    """Shell lines run in the open sandbox before the task is prepared."""
    files: Mapping[str, str] = {}
    """Path in the sandbox → local file or folder."""
    workdir: Workdir | None = None
    """Absolute directory in the sandbox; None: the image's own, or a private workspace."""
    platform: str | None = None
    """`os/architecture`; None: the engine's own."""
    user: str | None = None
    """Who runs commands and owns written files; None: the image's own."""
    resources: Resources = Resources()
    network: Network = Network()
    env: Mapping[str, str] = {}
    """Variables set for every command in the sandbox. A value that is exactly `${NAME}` is read
    from the user's shell."""
    run_env: Mapping[str, str] = {}
    """Only while the agent works; over `env`."""
    evaluation_env: Mapping[str, str] = {}
    """Only while the grader works; over `env`."""

    def during(self, phase: SandboxPhase) -> Mapping[str, str]:
        """The variables of one phase beside `env`."""
        return {"baseline": {}, "run": self.run_env, "evaluation": self.evaluation_env}[phase]

    def over(self, **changes: Any) -> "Requirements":
        """A copy with these changes, validated."""
        return Requirements.model_validate({**dict(self), **changes})
