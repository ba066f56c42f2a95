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
