"""What the lists of a network policy let through and refuse, by name and by address."""

import asyncio
from collections.abc import Sequence

import pytest

from agentcompass.components.contracts.requirements import AllowedHosts, DeniedHosts
from agentcompass.components.environments._docker.egress_rules import Refused, Rules
from tests.components.environments.egress_rig import allow, deny, resolve


@pytest.mark.parametrize(
    ("policy", "host", "port", "addresses"),
    [
        (allow("pypi.org"), "pypi.org", 443, ["151.101.0.223"]),
        (allow("pypi.org"), "PyPI.org.", 443, ["151.101.0.223"]),
        (allow("*.pypi.org"), "www.pypi.org", 443, ["151.101.0.223"]),
        (allow("pypi.org:443"), "pypi.org", 443, ["151.101.0.223"]),
        (allow("inner.example.com"), "inner.example.com", 80, ["10.1.2.3"]),
        (allow("10.0.0.0/8"), "inner.example.com", 80, ["10.1.2.3"]),
        (allow("10.0.0.0/8"), "six.example.com", 80, ["10.1.2.3"]),
        (allow("10.0.0.0/8"), "both.example.com", 80, ["10.1.2.3"]),
        (allow("10.0.0.0/8:80"), "10.9.9.9", 80, ["10.9.9.9"]),
        (allow("127.0.0.1"), "127.1", 80, ["127.0.0.1"]),
        (allow("::1"), "::1", 80, ["::1"]),
        (allow("allowed.localhost"), "allowed.localhost", 80, ["127.0.0.1"]),
        (allow("rebound.example.com", "127.0.0.1"), "rebound.example.com", 80, ["127.0.0.1"]),
        (deny("github.com"), "pypi.org", 443, ["151.101.0.223"]),
        (deny("github.com:22"), "github.com", 443, ["140.82.121.3"]),
        (deny("*.github.com"), "github.com", 443, ["140.82.121.3"]),
        (deny("10.0.0.0/8"), "both.example.com", 80, ["93.184.216.34"]),
        (deny(), "pypi.org", 443, ["151.101.0.223"]),
    ],
)
def test_a_list_lets_through(
    policy: AllowedHosts | DeniedHosts, host: str, port: int, addresses: list[str]
) -> None:
    assert asyncio.run(Rules(policy).addresses(host, port, resolve)) == addresses


@pytest.mark.parametrize(
    ("policy", "host", "port"),
    [
        (allow("pypi.org"), "github.com", 443),
        (allow("pypi.org"), "www.pypi.org", 443),
        (allow("pypi.org"), "pypi.org.evil.com", 443),
        (allow("*.pypi.org"), "pypi.org", 443),
        (allow("*.pypi.org"), "evilpypi.org", 443),
        (allow("pypi.org:443"), "pypi.org", 80),
        (allow("pypi.org"), "151.101.0.223", 443),
        (allow("10.0.0.0/8"), "pypi.org", 443),
        (allow("10.0.0.0/8:80"), "10.9.9.9", 81),
        (allow("rebound.example.com"), "rebound.example.com", 80),
        (allow("*.example.com"), "metadata.example.com", 80),
        (allow("0.0.0.0/0"), "::1", 80),
        (allow(), "pypi.org", 443),
        (deny("github.com"), "github.com", 443),
        (deny("github.com"), "GITHUB.com.", 443),
        (deny("github.com"), "140.82.121.3", 443),
        (deny("github.com"), "2354215171", 443),
        (deny("140.82.0.0/16"), "hidden.example.com", 443),
        (deny("10.0.0.0/8"), "10.1.2.3", 80),
        (deny("10.0.0.0/8"), "0x0a010203", 80),
        (deny("10.0.0.0/8"), "012.1.2.3", 80),
        (deny("10.0.0.0/8"), "::ffff:10.1.2.3", 80),
        (deny("10.0.0.0/8"), "64:ff9b::a01:203", 80),
        (deny("10.0.0.0/8"), "2002:a01:203::1", 80),
        (deny("github.com"), "127.0.0.1", 80),
        (deny("github.com"), "0.0.0.0", 80),
        (deny("github.com"), "::", 80),
        (deny("github.com"), "::ffff:127.0.0.1", 80),
        (deny("github.com"), "169.254.169.254", 80),
        (deny("github.com"), "rebound.example.com", 80),
    ],
)
def test_a_list_refuses(policy: AllowedHosts | DeniedHosts, host: str, port: int) -> None:
    with pytest.raises(Refused, match="the network policy of this phase"):
        asyncio.run(Rules(policy).addresses(host, port, resolve))


def test_a_name_that_cannot_be_allowed_is_not_even_looked_up() -> None:
    async def look_up(name: str) -> Sequence[str]:
        raise AssertionError(name)

    with pytest.raises(Refused):
        asyncio.run(Rules(allow("pypi.org")).addresses("secret.evil.com", 443, look_up))
