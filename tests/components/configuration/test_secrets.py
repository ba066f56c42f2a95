import re

import pytest

from agentcompass.components.configuration.secrets import expand, hide, holding, resolve
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import SecretReference


def test_no_secret_of_a_model_stays_in_its_spec() -> None:
    url = "http://user:canary1@h:8/v1?api-version=1&api_key=canary%2F2"
    spec, held = hide("m", url, "canary3", (), {"headers": {"X-Key": "canary4", "X-B": "${SET}"}})
    assert "canary" not in spec.model_dump_json()
    assert {"user:canary1", "canary%2F2", "canary3", "canary4"} == set(held.values())
    assert "api-version=1" in spec.base_url
    seen: list[str] = []
    with holding(held):
        assert expand(spec.base_url, "model-base-url", seen) == url
        assert spec.api_key is not None
        assert resolve(spec.api_key, "model-api-key") == "canary3"
    assert set(seen) == {"user:canary1", "canary%2F2"}


@pytest.mark.parametrize(
    ("url", "shown", "sent"),
    [
        ("https://me:${PASS}@h/v1", "https://me:${PASS}@h/v1", "https://me:pw@h/v1"),
        ("https://h/v1?code=canary", "https://h/v1?code=${…}", None),
        ("https://h/v1?api_key=ab%2fcanary#x", "https://h/v1?api_key=${…}#x", None),
        ("https://h/v1?key=canary1&b=2&key=canary2", "https://h/v1?key=${…}&b=2&key=${…}", None),
        ("https://h/v1?api%5Fkey=canary", "https://h/v1?api%5Fkey=${…}", None),
        ("https://h/v1?key=${PASS}&token=", "https://h/v1?key=${PASS}&token=", None),
        ("user:canary@h:8000/v1", "${…}@h:8000/v1", None),
        ("//user:canary@h/v1", "//${…}@h/v1", None),
        ("HTTPS://user:canary@h/v1/a@b", "HTTPS://${…}@h/v1/a@b", None),
        ("http://[::1]:8000/v1/user@x", "http://[::1]:8000/v1/user@x", None),
    ],
)
def test_an_address_is_stored_without_secrets_and_sent_as_it_was_typed(
    monkeypatch: pytest.MonkeyPatch, url: str, shown: str, sent: str | None
) -> None:
    monkeypatch.setenv("PASS", "pw")
    spec, held = hide("m", url, "", (), {})
    assert re.sub(r"\$\{AGENT\w+\}", "${…}", spec.base_url) == shown
    with holding(held):
        assert expand(spec.base_url, "f", []) == (sent or url.replace("${PASS}", "pw"))


def test_headers_that_look_alike_keep_their_values() -> None:
    spec, held = hide("m", "", "", (), {"headers": {"X-Key": "a", "X_Key": "b", "x-key": "a"}})
    with holding(held):
        sent = {name: expand(v, "f", []) for name, v in spec.params["headers"].items()}
    assert sent == {"X-Key": "a", "X_Key": "b", "x-key": "a"}


def test_an_address_that_is_none_is_named_without_its_secrets() -> None:
    with pytest.raises(RequestError) as refused:
        hide("m", "http://me:canary@[::1/v1?key=canary", "", (), {})
    assert str(refused.value).startswith("model-base-url: '[::1/v1' is no HTTP address")


def test_a_reference_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, held = hide("m", "http://h/v1", "${MY_KEY}", (), {})
    assert (spec.api_key, held) == (SecretReference(env="MY_KEY"), {})
    monkeypatch.setenv("MY_KEY", "k")
    assert spec.api_key is not None
    assert resolve(spec.api_key, "model-api-key") == "k"
    monkeypatch.setenv("MY_KEY", "")
    with pytest.raises(RequestError, match="MY_KEY is not set or empty"):
        resolve(spec.api_key, "model-api-key")


def test_held_values_end_with_their_block() -> None:
    with holding({"AGENTCOMPASS_TEST_SECRET": "v"}):
        assert resolve(SecretReference(env="AGENTCOMPASS_TEST_SECRET"), "f") == "v"
    with pytest.raises(RequestError):
        resolve(SecretReference(env="AGENTCOMPASS_TEST_SECRET"), "f")


@pytest.mark.parametrize("word", ["none", "None", "NONE"])
def test_the_word_none_is_no_secret_and_no_key(word: str) -> None:
    spec, held = hide("m", "http://h/v1", word, (), {})
    assert (spec.api_key, held) == (SecretReference(env="none"), {})
    assert resolve(SecretReference(env=word), "model-api-key") == ""
