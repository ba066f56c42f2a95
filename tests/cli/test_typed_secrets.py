"""Keys among the parameters: refused in one line where Prefect or the results would store them."""

from tests.cli.conftest import Cli
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

KEY = "zz-CANARY-93f"
LONG = "zz-CANARY-93f-0123"


def test_submit_names_the_variable_that_holds_a_secret(cli: Cli) -> None:
    given = f'{{"env": {{"OPENAI_API_KEY": "{KEY}"}}}}'
    answer = cli("submit", "quickstart", "oracle", "scripted", "--env-params", given)
    assert (answer.code, KEY in answer.err) == (2, False)
    place = "env-params.env.OPENAI_API_KEY: holds a secret, which would be stored with the flow run"
    assert place in answer.complaint
    assert "'${NAME}'" in answer.complaint


def test_run_refuses_a_key_in_the_body_and_names_the_way_out(cli: Cli) -> None:
    given = f'{{"extra_body": {{"api_key": "{LONG}"}}}}'
    answer = cli("run", "quickstart", "oracle", "scripted", "--model-params", given)
    assert (answer.code, LONG in answer.err) == (2, False)
    assert "model-params.extra_body.api_key: holds a secret" in answer.complaint
    assert "--model-api-key" in answer.complaint


def test_the_plan_shows_the_name_of_a_typed_secret_only(cli: Cli) -> None:
    given = f'{{"env": {{"OPENAI_API_KEY": "{KEY}"}}}}'
    words = ("quickstart", "oracle", "scripted", "--env-params", given, "--dry-run")
    for shown in (cli("run", *words), cli("run", *words, "--json")):
        assert (shown.code, KEY in shown.out + shown.err) == (0, False), shown.err


def test_the_word_none_sends_no_key(cli: Cli) -> None:
    with ModelServer(lambda request: Reply(text="pong")) as endpoint:
        words = ("quickstart", "tool_agent", "m", "--model-base-url", endpoint.base_url)
        answer = cli("run", *words, "--model-api-key", "None", "--dry-run")
        sent = [dict(request.headers) for request in endpoint.requests]
    assert answer.code == 0, answer.err
    assert "without a key" in answer.out
    assert sent
    assert not [name for headers in sent for name in headers if name.lower() == "authorization"]
