"""Texts of Docker engines and registries, and what a person can do about them."""

import re
from dataclasses import dataclass

from agentcompass.components.contracts.errors import Code


@dataclass(frozen=True)
class Rule:
    name: str
    pattern: re.Pattern[str]
    reason: str
    """`{detail}` is the engine's own text in one line; other names are the pattern's groups."""
    transient: bool = False
    code: Code | None = None
    """None: the caller's."""

    def explained(self, text: str, detail: str) -> str:
        found = self.pattern.search(text)
        groups = {
            name: value or "?" for name, value in (found.groupdict() if found else {}).items()
        }
        return self.reason.format(detail=detail, **groups)


def _rule(
    name: str, pattern: str, reason: str, *, transient: bool = False, code: Code | None = None
) -> Rule:
    return Rule(name, re.compile(pattern, re.IGNORECASE | re.DOTALL), reason, transient, code)


RULES: tuple[Rule, ...] = (
    _rule(
        "disk full",
        r"no space left on device|disk quota exceeded",
        "no space is left where the Docker engine stores images and containers ({detail}); free "
        "some (docker system df shows what takes it), then go on with --reuse",
        code=Code.ENVIRONMENT_DISK_FULL,
    ),
    _rule(
        "memory",
        r"cannot allocate memory|resource temporarily unavailable|too many open files",
        "the Docker engine's machine is out of memory, processes or handles ({detail}); lower "
        "--task-concurrency",
        transient=True,
    ),
    # Registries
    _rule(
        "rate limit",
        r"toomanyrequests|too many requests|pull rate limit|\b429 ",
        "the registry limits pulls ({detail}); log in (docker login) for a higher limit, pull "
        "beforehand, or use a mirror",
        transient=True,
    ),
    _rule(
        "missing manifest for platform",
        r"no match(?:ing manifest)? for (?:platform|(?P<platform>[a-z]+/[\w/]+))[^;]*",
        "the image is not published for this platform ({detail}); set setup.platform to one it "
        "is published for, or use another image",
    ),
    _rule(
        "other platform",
        r"found but does not (?:match|provide) the specified platform[^,]*"
        r"(?:wanted (?P<wanted>[\w/]+), actual: (?P<actual>[\w/]+))?",
        "the image is for another platform ({detail}); set setup.platform, or use another image",
    ),
    _rule(
        "certificate",
        r"x509:|tls: |server gave HTTP response to HTTPS client",
        "the Docker engine does not trust the registry ({detail}); install its certificate, or "
        "list it under insecure-registries in the engine's settings",
    ),
    _rule(
        "unknown registry",
        r"lookup (?P<host>\S+?)(?: on \S+)?: no such host",
        "the Docker engine cannot find the registry {host} ({detail}); check the image's name "
        "and the engine's network, or pull the image beforehand",
    ),
    _rule(
        "registry unreachable",
        r"(?:Get|Head|do request:).*(?:dial tcp|i/o timeout|handshake timeout|request canceled|"
        r"deadline exceeded|connection re(?:set|fused)|\bEOF)|dial tcp|proxyconnect",
        "the Docker engine cannot reach the registry ({detail}); check the engine's network and "
        "proxy settings, or pull the image beforehand",
        transient=True,
    ),
    _rule(
        "pull denied",
        r"pull access denied for (?P<name>\S+?),",
        "the registry gives no image {name} to you: it does not exist, or is private; check the "
        "name, or log in first (docker login)",
    ),
    _rule(
        "unauthorized",
        r"no basic auth credentials|unauthorized|authentication required|\b401 Unauthorized|"
        r"incorrect username or password",
        "the registry asks for a login or refuses yours ({detail}); run docker login for it",
    ),
    _rule(
        "denied",
        r"^denied|: denied|requested access to the resource is denied|\b403 Forbidden",
        "the registry denies access ({detail}); check the image's name and that your login may "
        "pull it",
    ),
    _rule(
        "no such image in registry",
        r"manifest unknown|manifest for .* not found|name unknown|repository .* not found|"
        r"unknown blob|blob unknown|failed to resolve reference.*not found",
        "the registry has no such image ({detail}); check its name and tag",
    ),
    _rule(
        "registry failing",
        r"received unexpected HTTP status: 5|unexpected status.*: 5\d\d|filesystem layer "
        r"verification failed|unexpected EOF|download failed after attempts|"
        r"connection reset by peer|TLS handshake timeout",
        "the registry is failing ({detail})",
        transient=True,
    ),
    _rule(
        "bad name",
        r"invalid reference format|invalid repository name|cannot contain a scheme",
        "this is not an image's name ({detail})",
    ),
    _rule(
        "credential helper",
        r"credentials? store|credential helper|docker-credential-",
        "the credential helper in ~/.docker/config.json fails ({detail}); mend or remove its entry",
    ),
    # Containers
    _rule(
        "no such image",
        r"no such image",
        "the Docker engine has no such image ({detail}); pull or build it",
    ),
    _rule(
        "image in use",
        r"unable to (?:delete|remove).*image is|image is being used",
        "the image is in use ({detail})",
    ),
    _rule(
        "container gone",
        r"no such (?:container|exec)|container \S+ is (?:not running|paused|restarting)|"
        r"is marked for removal|removal of container",
        "the container is gone or stopped ({detail})",
        code=Code.ENVIRONMENT_LOST,
    ),
    _rule(
        "name conflict",
        r'container name "/?(?P<name>[^"]+)" is already in use',
        "another container is named {name}; remove it (docker rm -f {name})",
    ),
    _rule(
        "address pools",
        r"non-overlapping IPv4 address pool|predefined address pools have been",
        "the Docker engine has no addresses left for another network; remove unused ones (docker "
        "network ls), lower --task-concurrency, or widen default-address-pools in its settings",
    ),
    _rule("no network", r"network \S+ not found", "the network is gone ({detail})"),
    _rule(
        "invalid mount",
        r"invalid mount|invalid volume specification|bind source path does not exist|"
        r"mounts denied|not a directory: unknown",
        "a mount cannot be made ({detail}); check its paths, which are those of the engine's "
        "machine",
    ),
    _rule(
        "wrong architecture",
        r"exec format error",
        "the image holds programs for another processor ({detail}); use an image for the "
        "engine's architecture, set setup.platform, or install emulation (binfmt) for it",
    ),
    _rule(
        "missing program",
        r'exec: "?(?P<program>[^":]+)"?: (?:executable file not found|stat .*no such file)|'
        r"exec (?P<other>\S+): no such file",
        "the image has no program {program}; a sandbox needs an image with a shell (sh) and the "
        "usual small tools",
    ),
    _rule(
        "workdir",
        r"working directory .* is invalid|chdir to cwd|Cwd must be an absolute path",
        "the working directory cannot be used ({detail}); give an absolute directory as workdir",
    ),
    _rule(
        "user",
        r"unable to find (?:user|group) (?P<user>[^:]+): no matching entries|"
        r"invalid user|linux spec user",
        "the image has no such user ({detail}); give a user of the image, or a number",
    ),
    _rule(
        "gpu",
        r"could not select device driver|nvidia-container-cli|CDI device|unresolvable CDI",
        "the Docker engine gives no GPU ({detail}); install the driver and the NVIDIA container "
        "toolkit on its machine, or leave resources.gpus out",
    ),
    _rule(
        "disk limit",
        r"storage-opt|storage driver .*quota|pquota",
        "the Docker engine's storage cannot limit the disk of a container; leave "
        "resources.disk_mb out, or let it use overlay2 on xfs mounted with pquota",
    ),
    _rule(
        "cpus",
        r"range of CPUs is from",
        "more processors are asked for than the engine's machine has ({detail}); lower "
        "resources.cpus",
    ),
    _rule(
        "memory limit",
        r"minimum memory limit|memory limit .*(?:invalid|too low)|unable to set memory limit",
        "the memory limit is too low ({detail}); raise resources.memory_mb",
    ),
    _rule(
        "runtime",
        r"unknown (?:or invalid )?runtime",
        "the Docker engine does not know this runtime ({detail}); see docker info for its runtimes",
    ),
    _rule(
        "version",
        r"client version .* is too (?:new|old)|requires .*API version|only introduced in API|"
        r"minimum supported API version",
        "this Docker engine is too old or too new ({detail})",
    ),
    _rule(
        "buildkit",
        r"requires BuildKit|the --mount option|the --chmod option|unknown flag: ",
        "the Dockerfile needs BuildKit, which the engine's API does not give ({detail}); write it "
        "without, or build the image beforehand and give its name as setup.image",
    ),
    _rule(
        "host",
        r"invalid bind address|invalid host|unsupported protocol",
        "this is not an engine's address ({detail}); DOCKER_HOST is unix://…, tcp://… or ssh://…",
    ),
    _rule("runtime start", r"OCI runtime", "the container could not start ({detail})"),
)
