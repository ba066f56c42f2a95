import asyncio

import pytest

from tests.components.environments.docker_boxes import gateway, outside_names, without_proxies

pytest.register_assert_rewrite(
    "tests.conformance.environment",
    "tests.conformance.environment_commands",
    "tests.conformance.environment_endings",
    "tests.conformance.environment_files",
    "tests.conformance.environment_network",
    "tests.conformance.environment_pressure",
    "tests.conformance.environment_uploads",
)


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


@pytest.fixture
def host() -> str:
    """This machine as the outside: what listens there is far enough for the lists."""
    return asyncio.run(gateway())


@pytest.fixture
def names(host: str) -> dict[str, list[str]]:
    return outside_names(host)
