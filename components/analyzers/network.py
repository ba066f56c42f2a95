"""Use of the network by agents: which hosts, what for, and what was refused."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from agentcompass.components.analyzers._actions import Action, actions, is_web_tool
from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.analyzers._shell import Command, git_verb
from agentcompass.components.analyzers._upstream import CALLS, URL, host_and_path, urls
from agentcompass.components.analyzers._written import code_of, with_embedded
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.protocols import Component

KINDS = {
    "web": Kind("warning", "the agent read pages or files from the network", suspicious=True),
    "remote": Kind("warning", "the agent reached another machine or repository", suspicious=True),
    "packages": Kind("info", "the agent installed packages from the network"),
    "refused": Kind(
        "info",
        "the agent tried the network and got nothing",
        "Put into the image what agents keep trying to install or fetch, or open the network",
        "lost",
    ),
}
_INSTALLERS = {
    "pip": ("install", "download", "wheel"), "pip3": ("install", "download"),
    "uv": ("pip", "add", "sync", "tool"), "uvx": ("",), "pipx": ("install", "run"),
    "poetry": ("add", "install"), "conda": ("install", "create"), "mamba": ("install",),
    "npm": ("install", "i", "ci", "add"), "npx": ("",), "yarn": ("add", "install"),
    "pnpm": ("add", "install", "i"), "cargo": ("install", "add"), "go": ("get", "install"),
    "gem": ("install",), "bundle": ("install",), "apt-get": ("install", "update"),
    "apt": ("install", "update"), "apk": ("add", "update"), "dnf": ("install",),
    "yum": ("install",), "brew": ("install",), "composer": ("install", "require"),
}  # fmt: skip
_REMOTES = frozenset(["ssh", "scp", "sftp", "rsync", "nc", "ncat", "telnet", "ftp", "socat"])
_REFUSED = re.compile(
    r"(?i)could ?n(?:o|')t resolve|couldn't connect|connection (?:refused|timed out|reset)"
    r"|network is unreachable|name or service not known"
    r"|temporary failure (?:in name resolution|resolving)"
    r"|failed to establish a new connection|no route to host|ENOTFOUND|EAI_AGAIN|ECONNREFUSED"
    r"|could not find a version that satisfies|failed to fetch|unable to connect|max retries"
    r"|403 forbidden by|blocked by|proxy.{0,20}(?:refused|denied|403)"
)
_OWN_WORDS = {
    "curl": r"curl: \(",
    "wget": r"wget: |Connecting to |Resolving |.*ERROR \d{3}: |failed: ",
    "pip": r"(?:ERROR|WARNING): |\s+(?:ERROR|WARNING): ",
    "npm": r"npm (?:ERR!|error|WARN)",
    "apt": r"(?:[EW]|Err:\d+):? ",
    "git": r"(?:fatal|error|ssh): ",
    "python": r"\W{0,3}(?:[\w.]+: )?(?:[\w.]*(?:Error|Exception|Timeout|gaierror)\b"
    r"|HTTPS?ConnectionPool|<urlopen|\[Errno)",
    "ssh": r"ssh: |\S+: ",
}
"""How the lines begin in which a program tells of its own failures; a page may tell of others'."""
_OTHERS = r"(?i)\W{0,3}(?:error|fatal|warning|failed|caused by|unable|could not|go: |\S+: )"
_FAMILIES = {
    "pip3": "pip", "pipx": "pip", "apt-get": "apt", "npx": "npm", "yarn": "npm", "pnpm": "npm",
    "scp": "ssh", "sftp": "ssh", "rsync": "ssh",
}  # fmt: skip
_CAME = re.compile(
    r"(?m)^(?:Successfully installed|Requirement already satisfied|added \d+ package|Setting up )"
)
_NOTHING = re.compile(
    r"(?i)\W*(?:exit(?:ed)?(?: with)?[ _]code\W*\d+\W*)?(?:std(?:out|err)\W*)*(?:no output)?\W*"
)
_FETCH_FAILED = re.compile(r"^curl: \((?:3|5|6|7|22|28|35|47|52|60)\).*$|^wget: .*$", re.MULTILINE)
_CURL_KEEPS = re.compile(
    r"-[a-zA-Z]*[oOTdFX]|--(?:output|remote-name|upload-file|data|form|request|json)"
)
_SILENT = re.compile(r"(?:python|perl|ruby|node)[\d.]*|tee|tar|unzip|patch|git|bash|sh|dd|sed|jq")
_LOCAL = re.compile(
    r"(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[?::1\]?|.*\.(?:local|internal))$"
)
_SHORT = 500
"""Characters of what a web tool says of a failure; a page is longer."""


class _Use(NamedTuple):
    kind: str
    host: str
    command: Command | None
    """None: a tool of its own."""


class NetworkParameters(AnalyzerParameters):
    allowed_hosts: tuple[str, ...] = ()
    """Use of these hosts, and of those below them, is not reported."""


class Network:
    def __init__(self, parameters: NetworkParameters) -> None:
        self._allowed = tuple(host.lower() for host in parameters.allowed_hosts)
        self._findings = Findings(KINDS, parameters.examples)
        self._hosts: Counter[str] = Counter()

    def look_at(self, attempt: FinishedAttempt) -> None:
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        hosts: set[str] = set()
        for action in actions(attempt):
            uses = list(self._uses(action))
            nothing = bool(uses) and _got_nothing(action, uses)
            hosts.update(use.host for use in uses if use.host)
            refused = [nothing or _refused(action, use, uses) for use in uses]
            kinds = ("refused" if no else use.kind for no, use in zip(refused, uses, strict=True))
            for kind in dict.fromkeys(kinds):
                found[kind].append(
                    (action.step, action.line or f"{action.tool} {' '.join(action.urls)}")
                )
        self._hosts.update(hosts)
        for kind, places in found.items():
            self._findings.add(kind, attempt, places[0][1], [step for step, _ in places])

    def report(self) -> Report:
        hosts = dict(self._hosts.most_common(50))
        named = ", ".join(f"{host} ({count})" for host, count in list(hosts.items())[:10])
        intro = f"Hosts, with the number of attempts: {named}.\n" if hosts else ""
        return self._findings.report({"hosts": hosts}, intro)

    def _uses(self, action: Action) -> Iterator[_Use]:
        named = [
            _Use("web", host, command)
            for url, command in urls(action)
            if (host := host_and_path(url)[0]) and self._counts(host)
        ]
        yield from named
        if is_web_tool(action.tool) and not action.line and not action.urls:
            yield _Use("web", "", None)  # a search
        for command in with_embedded(action):
            if _installs(command):
                yield _Use("packages", "", command)
            elif _reaches(command):
                yield _Use("remote", "", command)
            elif not named and CALLS.search(code := code_of(command)):
                hosts = [host_and_path(found.group())[0] for found in URL.finditer(code)]
                if any(self._counts(host) for host in hosts if host):
                    yield _Use("web", "", command)

    def _counts(self, host: str) -> bool:
        if _LOCAL.match(host):
            return False
        return not any(host == one or host.endswith(f".{one}") for one in self._allowed)


def _refused(action: Action, use: _Use, uses: list[_Use]) -> bool:
    """By what its own program says, and of a line with several uses of it, only those it names."""
    text = action.output[:20_000]
    if use.command is None:
        return (action.failed or len(text) < _SHORT) and _REFUSED.search(text) is not None
    family = _family(use.command)
    says = re.compile(_OWN_WORDS.get(family, _OTHERS))
    lines = [line for line in text.splitlines() if says.match(line) and _REFUSED.search(line)]
    alike = [one for one in uses if one.command is not None and _family(one.command) == family]
    count = len(alike if family == "curl" else {id(one.command) for one in alike})
    if count > 1 and family in ("curl", "git", "wget"):
        each = len(lines) >= count and family != "wget"  # which says it in several lines
        return each or any(use.host and use.host in line for line in lines)
    return bool(lines) and not _CAME.search(text)


def _family(command: Command) -> str:
    program = re.sub(r"[\d.]+$", "", command.program)
    if program == "python" and command.words[:2] == ("-m", "pip"):
        return "pip"
    return _FAMILIES.get(command.program, program)


def _got_nothing(action: Action, uses: list[_Use]) -> bool:
    """curl and wget that printed nothing but why they failed, or nothing at all and wrote no file,
    in a line that does nothing else on the network."""
    fetching = [one for one in action.commands if one.program in ("curl", "wget")]
    if not fetching or any(use.kind != "web" for use in uses):
        return False
    failed = len(_FETCH_FAILED.findall(action.output))
    if not _NOTHING.fullmatch(_FETCH_FAILED.sub("", action.output)):
        return False
    return failed >= len(fetching) or not any(map(_keeps, with_embedded(action)))


def _keeps(command: Command) -> bool:
    """What it fetches may be in a file, or in another program that says nothing of it; what it
    sends has reached somebody."""
    if command.program == "wget":
        return not any(word in ("-O-", "-qO-", "-") for word in command.words)
    if command.program == "curl" and any(map(_CURL_KEEPS.match, command.words)):
        return True
    return bool(command.outputs) or _SILENT.fullmatch(command.program) is not None


def _installs(command: Command) -> bool:
    program, words = command.program, command.words
    if re.fullmatch(r"python[\d.]*", program) and words[:2] == ("-m", "pip"):
        program, words = "pip", words[2:]
    if (verbs := _INSTALLERS.get(program)) is None:
        return False
    if {"--no-index", "--offline", "--version", "--help", "--dry-run"} & set(words):
        return False
    local = [w for w in words[1:] if not w.startswith("-")]
    if program.startswith("pip") and local and all(w.startswith((".", "/")) for w in local):
        return "--no-deps" not in words and "--no-build-isolation" not in words
    return verbs == ("",) or bool(words) and words[0] in verbs


def _reaches(command: Command) -> bool:
    words = command.words
    verb, rest = git_verb(words) if command.program == "git" else ("", [])
    if command.program == "rsync":
        return any(":" in word for word in words)
    if command.program in _REMOTES:
        hosts = [w for w in words if not w.startswith("-")]
        return bool(hosts) and not any(_LOCAL.match(w.split("@")[-1]) for w in hosts)
    if verb == "clone":
        return any("://" in w or w.startswith("git@") for w in rest)
    if verb == "remote":
        return rest[:1] == ["update"]
    return verb in ("fetch", "pull", "push", "ls-remote")


COMPONENT = Component(version="3", create=Network, parameters=NetworkParameters)
