"""C33: a secret typed among the parameters is held or refused, and what is none is let be."""

from typing import Any

import pytest

from agentcompass.components.configuration.secrets import HELD_VARIABLE, holding, shell_secrets
from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import Choice, ModelSpec, RunRequest
from agentcompass.components.execution.plan import resolve
from agentcompass.components.execution.request import RunOptions, build_request
from agentcompass.components.execution.typed_secrets import place_of

LIVE = "sk-proj-" + "aZ3kQ9xW7rT5yU1iO8pL6mN4"
PASSWORD = "correct-horse"


def built(**options: Any) -> tuple[RunRequest, dict[str, str]]:
    words = {"benchmark": "quickstart", "harness": "oracle", "model": "scripted"}
    return build_request(RunOptions(**words, **options))


@pytest.mark.parametrize("field", ["env", "run_env", "evaluation_env"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", LIVE),
        ("OPENAI_API_KEY", "zz-CANARY-93f"),
        ("AWS_SECRET_ACCESS_KEY", "/Kj3hG+a8sdf7HJKASDHF/jh12"),
        ("DB_PASSWORD", PASSWORD),
        ("GITHUB_TOKEN", "AbCdEfGhIj"),
        ("SETTINGS", f'{{"key": "{LIVE}"}}'),
        ("DATABASE_URL", "postgres://me:letmein@db/x"),
    ],
)
def test_a_secret_variable_is_held_masked_and_given_to_the_sandbox(
    field: str, name: str, value: str
) -> None:
    request, held = built(env_params={field: {name: value, "LEVEL": "3"}})
    assert value not in request.model_dump_json()
    assert request.environment.params[field]["LEVEL"] == "3"
    ((reference, kept),) = held.items()
    assert (reference.startswith(HELD_VARIABLE), kept) == (True, value)
    assert place_of(reference, request) == f"env-params.{field}.{name}"
    given = request.environment.params[field]
    with holding(held):
        assert resolved(given, {}) == {name: value, "LEVEL": "3"}
        assert shell_secrets(given.values()) == [value]
        resolve(request)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("TOKENIZERS_CACHE_2", "a1b2c3d4e5f6"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-Xy12/agent.77"),
        ("SSH_KEY_FILE", "id_ed25519"),
        ("API_KEY", "${MY_API_KEY}"),
        ("AUTH_MODE", "disabled"),
        ("DB_PASSWORD", "disabled"),
        ("MAX_TOKENS", "128000000"),
        ("SORT_KEY", "created_at"),
        ("AUTH_SERVER", "https://login.example.org/v2"),
        ("GIT_AUTHOR_NAME", "agentcompass-bot-7"),
        ("PATH", "/usr/local/bin:/usr/bin"),
        ("COMMIT", "9fceb02d0ae598e95dc970b74767f19372d61af8"),
        ("HTTPS_PROXY", "http://proxy:3128"),
    ],
)
def test_a_variable_that_is_no_secret_stays_readable(name: str, value: str) -> None:
    request, held = built(env_params={"env": {name: value}})
    assert (request.environment.params["env"], held) == ({name: value}, {})


def test_two_names_that_look_alike_keep_their_values() -> None:
    request, held = built(env_params={"env": {"A-KEY": "first-1234", "A_KEY": "second-1234"}})
    with holding(held):
        given = resolved(request.environment.params["env"], {})
    assert given == {"A-KEY": "first-1234", "A_KEY": "second-1234"}


@pytest.mark.parametrize(
    ("option", "params", "field"),
    [
        ("model_params", {"extra_body": {"api_key": LIVE}}, "model-params.extra_body.api_key"),
        ("harness_params", {"a": [{"apiToken": LIVE}]}, "harness-params.a.0.apiToken"),
        ("benchmark_params", {"hf_token": "abcdefghijklmnop1"}, "benchmark-params.hf_token"),
        ("analysis_params", {"x": {"client-secret": LIVE}}, "analysis-params.x.client-secret"),
        ("env_params", {"setup": {"Authorization": f"Bearer {LIVE}"}}, "env-params.setup.Auth"),
    ],
)
def test_a_secret_elsewhere_is_refused_by_its_field_and_not_shown(
    option: str, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(RequestError) as refused:
        built(**{option: params})
    assert str(refused.value).startswith(field)
    assert refused.value.hint
    assert LIVE not in str(refused.value)


@pytest.mark.parametrize(
    "params",
    [
        {"reward_key": "scores_of_2024_final"},
        {"max_tokens": "1234567890123456"},
        {"stop_token": "reserved_special_token_17"},
        {"eosToken": "reserved_special_token_17"},
        {"tokenizer": "meta-llama/Llama-3.1-8B"},
        {"key_field": "question_id_2024_v2"},
        {"api_key": "OPENAI_API_KEY"},
        {"token": "/run/secrets/token-2024-01"},
        {"password": "hunter2"},
        {"prompt": f"Is {LIVE} a key?"},
    ],
)
def test_parameters_that_only_sound_like_secrets_are_let_be(params: dict[str, Any]) -> None:
    request, held = built(harness_params=params)
    assert (request.harness.params, held) == (params, {})


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"environment": Choice(id="host_process", params={"env": {"X_KEY": LIVE}})}, "env-params"),
        ({"harness": Choice(id="oracle", params={"api_key": LIVE})}, "harness-params.api_key"),
        ({"model": ModelSpec(id="m", base_url="http://me:pw@h")}, "model-base-url"),
        ({"model": ModelSpec(id="m", params={"headers": {"X-Key": "k"}})}, "model-params.headers"),
    ],
)
def test_a_stored_request_with_a_secret_is_not_carried_out(
    part: dict[str, Any], field: str
) -> None:
    request = built()[0].model_copy(update=part)
    with pytest.raises(
        RequestError, match=rf"^{field}.*delete the flow run; (name it|leave it out)"
    ):
        resolve(request)
