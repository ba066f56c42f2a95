import pytest

from agentcompass.components.benchmarks._text_answer import same_answer, short_answer


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("ANSWER: 12.50", "12.50"),
        ("I counted.\n\n**Answer:** `12.50`\n", "12.50"),
        ("> ANSWER: a b", "a b"),
        ("ANSWER: 1\nno, wait\nanswer: 2", "2"),
        ("ANSWER:\n/api/report\n", "/api/report"),
        ("```\nANSWER: 7\n```", "7"),
        ("7", "7"),
        ("I looked.\nIt is 7.", ""),
        ("", ""),
        ("ANSWER:", ""),
    ],
)
def test_the_answer_in_a_message(message: str, answer: str) -> None:
    assert short_answer(message) == answer


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ("12.5", "12.50"),
        ("1,234.00", "1234"),
        ("$12", "12"),
        (" 'Nut 106.08'. ", "nut  106.08"),
        ("a,b", "a, b"),
        ("\u22123", "-3"),
        ("/API/Report", "/api/report"),
    ],
)
def test_spellings_that_say_the_same(given: str, accepted: str) -> None:
    assert same_answer(given, accepted)


@pytest.mark.parametrize(
    ("given", "accepted"), [("12.51", "12.50"), ("", "0"), ("nan", "1"), ("b, a", "a, b")]
)
def test_spellings_that_do_not(given: str, accepted: str) -> None:
    assert not same_answer(given, accepted)
