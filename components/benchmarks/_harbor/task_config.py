"""task.toml of the Harbor task format, schema 1.0 to 1.4: read, checked, old spellings put right.

Source of the format: https://www.harborframework.com/docs/tasks. Keys this model does not know
are kept apart (`unknown_keys`) and change nothing, as in Harbor itself.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

NEWEST_SCHEMA = (1, 4)


class Section(BaseModel):
    """A table of the file. Unlike our own records it may hold keys we do not know."""

    model_config = ConfigDict(
        frozen=True, extra="allow", use_attribute_docstrings=True, allow_inf_nan=False
    )


Seconds = Annotated[float, Field(gt=0)]
NetworkMode = Literal["public", "no-network", "allowlist"]


def _user(value: object) -> object:
    """A name or a uid; TOML has numbers for the latter."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


User = Annotated[str, BeforeValidator(_user)]


class NetworkRule(Section):
    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _hosts_belong_to_a_list(self) -> "NetworkRule":
        if self.allowed_hosts and self.network_mode != "allowlist":
            raise ValueError('allowed_hosts needs network_mode = "allowlist"')
        return self


class Healthcheck(Section):
    command: str
    interval_sec: Annotated[float, Field(ge=0)] = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Annotated[float, Field(ge=0)] = 0.0
    """Failures within it are not counted."""
    start_interval_sec: Annotated[float, Field(ge=0)] = 5.0
    retries: Annotated[int, Field(ge=1)] = 3
    """So many failures one after another are the end."""


class EnvironmentSection(NetworkRule):
    build_timeout_sec: Seconds = 600.0
    docker_image: str | None = None
    os: Annotated[
        Literal["linux", "windows"],
        BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value),
    ] = "linux"
    cpus: Annotated[float, Field(gt=0)] | None = None
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    storage_mb: Annotated[int, Field(gt=0)] | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    gpu_types: tuple[str, ...] | None = None
    tpu: Mapping[str, Any] | None = None
    env: Mapping[str, str] = {}
    workdir: str | None = None
    mcp_servers: tuple[Mapping[str, Any], ...] = ()
    healthcheck: Healthcheck | None = None

    @model_validator(mode="before")
    @classmethod
    def _old_spellings(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        new = {k: v for k, v in data.items() if k not in ("memory", "storage", "allow_internet")}
        for old in ("memory", "storage"):
            if old in data:
                megabytes, now = _megabytes(data[old], old), f"{old}_mb"
                if new.setdefault(now, megabytes) != megabytes:
                    raise ValueError(f"{old} and {now} contradict each other")
        if isinstance(data.get("allow_internet"), bool) and "network_mode" not in new:
            new["network_mode"] = "public" if data["allow_internet"] else "no-network"
        return new


class AgentSection(NetworkRule):
    timeout_sec: Seconds | None = None
    user: User | None = None


class CollectHook(Section):
    command: str
    service: str = "main"
    timeout_sec: Seconds = 60.0
    user: User | None = None


class VerifierSection(NetworkRule):
    timeout_sec: Seconds = 600.0
    env: Mapping[str, str] = {}
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentSection | None = None
    collect: tuple[CollectHook, ...] = ()

    @property
    def mode(self) -> Literal["shared", "separate"] | None:
        """None: nothing is said here."""
        if self.environment_mode is not None:
            return self.environment_mode
        return None if self.environment is None else "separate"

    @model_validator(mode="after")
    def _one_place(self) -> "VerifierSection":
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError('environment_mode = "shared" has no [verifier.environment]')
        return self


class ArtifactEntry(Section):
    source: str
    destination: str | None = None
    exclude: tuple[str, ...] = ()
    service: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        return {"source": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _stays_inside(self) -> "ArtifactEntry":
        for path in (self.source, self.destination or ""):
            if ".." in path.split("/") or "\0" in path:
                raise ValueError(f"artifact path {path!r} leaves its folder")
        return self


class SolutionSection(Section):
    env: Mapping[str, str] = {}


class Step(Section):
    name: str
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    min_reward: float | Mapping[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: tuple[ArtifactEntry, ...] = ()


class TaskConfig(Section):
    schema_version: str = "1.4"
    task: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = {}
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    environment: EnvironmentSection = EnvironmentSection()
    solution: SolutionSection = SolutionSection()
    artifacts: tuple[ArtifactEntry, ...] = ()
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    steps: tuple[Step, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _old_spellings(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        new = {k: v for k, v in data.items() if k not in ("version", "multi_step_reward_mode")}
        if "version" in data:
            new.setdefault("schema_version", data["version"])
        return new

    @model_validator(mode="after")
    def _known_schema(self) -> "TaskConfig":
        parts = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", self.schema_version)
        if parts is None:
            raise ValueError(f"schema_version {self.schema_version!r} is not a version")
        if (int(parts[1]), int(parts[2])) > NEWEST_SCHEMA:
            newest = ".".join(map(str, NEWEST_SCHEMA))
            raise ValueError(
                f"schema_version {self.schema_version} is newer than what is read here ({newest})"
            )
        return self


def unknown_keys(section: Section, prefix: str = "") -> Iterator[str]:
    """Dotted names of keys that no field reads: `environment.memry_mb`."""
    for name in section.model_extra or {}:
        yield prefix + name
    for name in type(section).model_fields:
        value = getattr(section, name)
        inner = value if isinstance(value, tuple) else (value,)
        for part in inner:
            if isinstance(part, Section):
                yield from unknown_keys(part, f"{prefix}{name}.")


_SIZES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}


def _megabytes(value: object, name: str) -> int:
    """`2G`, `512M`, `1.5g`, `2048K`."""
    size = re.fullmatch(r"([0-9.]+) *([GMKgmk])[iI]?[bB]?", str(value).strip())
    if size is None:
        raise ValueError(f'{name} = {value!r} is not a size such as "2G" or "512M"')
    return int(float(size[1]) * _SIZES[size[2].upper()])
