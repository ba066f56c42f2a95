import base64

import pytest

from agentcompass.components.configuration.model_secrets import model_secrets
from agentcompass.components.results.masking import Masker

TOKEN = "sk-typed-abcdefghijkl123456"
BASIC = base64.b64encode(b"me:p@ssw0rd99").decode()


@pytest.mark.parametrize(
    ("url", "headers", "printed"),
    [
        ("http://h/v1", [f"Bearer {TOKEN}"], f"TOKEN={TOKEN}"),
        ("http://h/v1", [f"token  {TOKEN}"], f"TOKEN={TOKEN}"),
        ("http://h/v1", [f"Basic {BASIC}"], "password p@ssw0rd99"),
        ("http://h/v1", [f"Basic {BASIC}"], "me:p@ssw0rd99"),
        ("http://me:p%40ssw0rd99@h/v1", [], "password p@ssw0rd99"),
        ("http://me:p%40ssw0rd99@h/v1", [], "password p%40ssw0rd99"),
        ("http://me:p%40ssw0rd99@h/v1", [], f"Authorization: Basic {BASIC}"),
        ("http://me:pa!ss%2Dw0rd@h/v1", [], "as typed: pa!ss%2Dw0rd"),
        (f"http://{TOKEN}@h/v1", [], f"TOKEN={TOKEN}"),
        ("http://h/v1?api_key=canary%2F22", [], "key canary/22"),
    ],
)
def test_nothing_of_it_is_left_in_any_shape(url: str, headers: list[str], printed: str) -> None:
    masked = Masker(model_secrets(url, None, headers)).text(printed)
    for secret in (TOKEN, "ssw0rd99", "ss%2Dw0rd", BASIC, "canary"):
        assert secret not in masked


def test_the_key_and_what_is_no_secret() -> None:
    assert model_secrets("http://h/v1?api-version=1", "k-123456", ["My Title"]) == [
        "k-123456",
        "My Title",
    ]
    assert model_secrets("", None, ["Basic not-base-64"]) == ["Basic not-base-64", "not-base-64"]


def test_a_password_that_is_a_plain_word_is_masked_beside_its_user() -> None:
    masker = Masker(model_secrets("http://user:pass@h/v1", None, []))
    assert masker.text("user:pass@h") == "***@h"
    assert masker.text("3 tests passed") == "3 tests passed"
