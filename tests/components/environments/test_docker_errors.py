"""What an engine, a registry or the way to them says becomes one line with the way out."""

from typing import Any

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.errors import (
    explained,
    retry_after_seconds,
    transient,
)
from tests.components.environments.docker_images_rig import Lab, lab, within
from tests.standins.registry import serving

assert lab  # a fixture

START, FULL, LOST = (
    Code.ENVIRONMENT_START,
    Code.ENVIRONMENT_DISK_FULL,
    Code.ENVIRONMENT_LOST,
)
# (status or None for a failure in mid-stream, the text, the code, words of the line, may pass)
ANSWERS: list[tuple[int | None, str, Code, str, bool]] = [
    (
        None,
        "failed to register layer: Error processing tar file(exit status 1): write /big: no space "
        "left on device",
        FULL,
        "docker system df",
        False,
    ),
    (
        500,
        "mkdir /var/lib/docker/overlay2/ab-init: no space left on device",
        FULL,
        "no space is left where the Docker engine",
        False,
    ),
    (
        500,
        "toomanyrequests: You have reached your pull rate limit.",
        START,
        "docker login",
        True,
    ),
    (
        None,
        "error pulling image configuration: download failed after attempts=1: toomanyrequests: x",
        START,
        "limits pulls",
        True,
    ),
    (
        500,
        "unexpected status from HEAD request to https://r/v2/a/manifests/1: 429 Too Many Requests",
        START,
        "limits pulls",
        True,
    ),
    (500, "manifest unknown", START, "no such image", False),
    (
        404,
        "manifest for alpine:9 not found: manifest unknown: manifest unknown",
        START,
        "check its name and tag",
        False,
    ),
    (
        404,
        "pull access denied for a/b, repository does not exist or may require 'docker login': "
        "denied: requested access to the resource is denied",
        START,
        "does not exist, or is private",
        False,
    ),
    (500, "unauthorized", START, "docker login", False),
    (
        500,
        'Head "http://127.0.0.1:5/v2/one/manifests/latest": no basic auth credentials',
        START,
        "docker login",
        False,
    ),
    (500, "denied", START, "denies access", False),
    (
        500,
        "received unexpected HTTP status: 503 Service Unavailable",
        START,
        "registry is failing",
        True,
    ),
    (
        500,
        'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on '
        "10.0.0.1:53: no such host",
        START,
        "cannot find the registry registry-1.docker.io",
        False,
    ),
    (
        500,
        'Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused',
        START,
        "cannot reach the registry",
        True,
    ),
    (
        500,
        'Get "https://r.example/v2/": net/http: TLS handshake timeout',
        START,
        "cannot reach the registry",
        True,
    ),
    (
        500,
        'Get "https://r.example/v2/": x509: certificate signed by unknown authority',
        START,
        "insecure-registries",
        False,
    ),
    (
        404,
        "no matching manifest for linux/arm64/v8 in the manifest list entries",
        START,
        "setup.platform",
        False,
    ),
    (
        404,
        "image with reference local/base was found but does not match the specified platform: "
        "wanted linux/arm64, actual: linux/amd64",
        START,
        "another platform",
        False,
    ),
    (404, "No such image: nope/nope:latest", START, "no such image", False),
    (
        400,
        "invalid reference format: repository name must be lowercase",
        START,
        "not an image's name",
        False,
    ),
    (404, "No such container: deadbeef", LOST, "gone or stopped", False),
    (409, "Container 5511f1152664 is not running", LOST, "gone or stopped", False),
    (
        409,
        'Conflict. The container name "/dimg-x" is already in use by container "95c". You have to '
        "remove (or rename) that container to be able to reuse that name.",
        START,
        "docker rm -f dimg-x",
        False,
    ),
    (
        404,
        "could not find an available, non-overlapping IPv4 address pool among the defaults to "
        "assign to the network",
        START,
        "default-address-pools",
        False,
    ),
    (
        500,
        "all predefined address pools have been fully subnetted",
        START,
        "default-address-pools",
        False,
    ),
    (
        400,
        'invalid mount config for type "bind": bind source path does not exist: /nonexistent',
        START,
        "mount cannot be made",
        False,
    ),
    (
        400,
        "failed to create shim task: OCI runtime create failed: runc create failed: unable to "
        'start container process: exec: "sh": executable file not found in $PATH: unknown',
        START,
        "no program sh",
        False,
    ),
    (
        400,
        "OCI runtime create failed: runc create failed: unable to start container process: exec "
        "/bin/sh: exec format error: unknown",
        START,
        "another processor",
        False,
    ),
    (
        500,
        "unable to find user agent: no matching entries in passwd file",
        START,
        "no such user",
        False,
    ),
    (
        500,
        'could not select device driver "" with capabilities: [[gpu]]',
        START,
        "NVIDIA container toolkit",
        False,
    ),
    (
        500,
        "--storage-opt is supported only for overlay over xfs with 'pquota' mount option",
        START,
        "resources.disk_mb",
        False,
    ),
    (
        400,
        "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available",
        START,
        "resources.cpus",
        False,
    ),
    (500, "something nobody has seen before", START, "nobody has seen", True),
    (400, "something nobody has seen before", START, "nobody has seen", False),
]


def answer(status: int | None, text: str, headers: dict[str, str] | None = None) -> Exception:
    """As the SDK raises it."""
    import requests
    from docker.errors import APIError, create_api_error_from_http_exception

    if status is None:
        return APIError(text, explanation=text)
    response = requests.Response()
    response.status_code = status
    response.headers.update({"Content-Type": "application/json", **(headers or {})})
    response._content = f'{{"message": {_quoted(text)}}}'.encode()
    try:
        create_api_error_from_http_exception(requests.HTTPError("no", response=response))
    except APIError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(("status", "text", "code", "words", "may_pass"), ANSWERS)
def test_an_answer_becomes_one_line_with_the_way_out(
    status: int | None, text: str, code: Code, words: str, may_pass: bool
) -> None:
    error = answer(status, text)
    told = explained(error, "pulling image x")
    assert told.code is code
    assert str(told).startswith("pulling image x: ")
    assert words in str(told)
    assert "\n" not in str(told)
    assert transient(error) is may_pass


def test_what_is_known_already_stays_and_the_caller_chooses_the_code_of_the_rest() -> None:
    known = AgentCompassError(FULL, "known")
    assert explained(known, "x") is known
    assert not transient(known)
    assert explained(answer(500, "odd"), "x", Code.ENVIRONMENT_SETUP).code is Code.ENVIRONMENT_SETUP
    assert explained(answer(500, "no space left on device"), "x", LOST).code is FULL


@pytest.mark.parametrize(
    ("host", "words", "may_pass"),
    [
        ("unix:///nonexistent/docker.sock", "cannot be reached", False),
        ("tcp://127.0.0.1:1", "cannot be reached", True),
        ("nonsense://x", "not an engine's address", False),
    ],
)
def test_an_engine_that_is_not_there(host: str, words: str, may_pass: bool) -> None:
    with pytest.raises(Exception, match=r".") as raised:
        within(lambda: Engine(host).call(lambda client: client.ping()))
    told = explained(raised.value, "asking the Docker engine")
    assert told.code is START
    assert words in str(told)
    assert "DOCKER_HOST" in str(told)
    assert transient(raised.value) is may_pass


def test_a_socket_that_is_not_for_this_user_names_the_group() -> None:
    import requests
    from docker.errors import DockerException
    from urllib3.exceptions import ProtocolError

    refused = ProtocolError("Connection aborted.", PermissionError(13, "Permission denied"))
    error = DockerException("Error while fetching server API version")
    error.__cause__ = requests.ConnectionError(refused)
    assert "docker group" in str(explained(error, "asking the Docker engine"))
    assert not transient(error)


def test_an_answer_is_judged_by_itself_whatever_failed_before_it() -> None:
    error = answer(404, "No such image: x")
    error.__context__ = ConnectionRefusedError()
    assert "no such image" in str(explained(error, "x"))
    assert not transient(error)


def test_no_password_and_no_signature_reaches_the_line() -> None:
    text = 'Get "https://me:hunter2@r.example/v2/x?X-Amz-Signature=abc": dial tcp: i/o timeout'
    told = str(explained(answer(500, text), "pulling image x"))
    assert "https://r.example/v2/x" in told
    assert "hunter2" not in told
    assert "abc" not in told


@pytest.mark.parametrize(
    ("text", "headers", "seconds"),
    [
        ("toomanyrequests: retry-after: 1.5s, allowed: 44000/minute", {}, 1.5),
        ("toomanyrequests: retry-after: 250ms, allowed: 800/minute", {}, 0.25),
        ("toomanyrequests: retry-after: 104.5µs", {}, 0.0001045),
        ("busy", {"Retry-After": "7"}, 7.0),
        ("busy", {"Retry-After": "soon"}, None),
        ("toomanyrequests: x", {}, None),
    ],
)
def test_a_wait_that_is_asked_for_is_seen(
    text: str, headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_seconds(answer(429, text, headers)) == pytest.approx(seconds)


def test_a_real_engine_refuses_in_words_we_know(lab: Lab) -> None:
    """The texts above, from the engine that is here."""
    api = lab.engine.client().api

    def container(start: bool = False, **options: Any) -> None:
        limits = api.create_host_config(**options.pop("limits", {}))
        made = api.create_container(name, ["sh"], labels=lab.labels, host_config=limits, **options)
        if start:
            api.start(made["Id"])

    with serving() as registry:
        registry.add(lab.mark, {"none": b"x"}, labels=lab.labels)
        name = registry.image(lab.mark)
        api.pull(name)
        container(name=f"test-{lab.mark}")
        refusals = {
            "docker rm -f": {"name": f"test-{lab.mark}"},
            "no program sh": {"start": True},
            "no such user": {"start": True, "user": "nobody-here"},
            "resources.cpus": {"limits": {"nano_cpus": 10**15}},
            "resources.memory_mb": {"limits": {"mem_limit": "1m"}},
            "mount cannot be made": {"limits": {"binds": ["/tmp:relative"]}},
            "no such image": {"image": True},
        }
        for words, options in refusals.items():
            if options.pop("image", False):
                name = f"{name}-not"
            with pytest.raises(Exception, match=r".") as raised:
                container(**options)
            told = explained(raised.value, "opening the sandbox")
            assert words in str(told)
            assert told.code is START
            assert not transient(raised.value)


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)
