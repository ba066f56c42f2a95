import pytest

from agentcompass.components.benchmarks._text_answer import marked_answer, same_answer, short_answer


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


def test_an_only_line_is_not_marked() -> None:
    assert marked_answer("I wrote the line to answer.txt.") == marked_answer("ANSWER:") == ""
    assert marked_answer("So:\nANSWER:\n7") == "7"


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ("12.5", "12.50"),
        ("1,234.00", "1234"),
        ("$12", "$12.00"),
        ("1,823.23 EUR", "1823.23 EUR"),
        ("EUR 1,823.23", "1823.23 EUR"),
        ("\u20ac1,823.23", "1823.23 EUR"),
        ("\u20ac 1823.23", "1823.23 EUR"),
        ("1823.23\u00a0\u20ac.", "EUR 1823.23"),
        ("1 823.23 euros", "1823.23 EUR"),
        ("1823.23 (EUR)", "1823.23 EUR"),
        ("-\u20ac5", "\u20ac-5.00"),
        ("12 percent", "12%"),
        (" 'Nut 106.08'. ", "nut  106.08"),
        ("a,b", "a, b"),
        ("\u22123", "-3"),
        ("/API/Report", "/api/report"),
    ],
)
def test_spellings_that_say_the_same(given: str, accepted: str) -> None:
    assert same_answer(given, accepted)


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ("12.51", "12.50"),
        ("", "0"),
        ("nan", "1"),
        ("b, a", "a, b"),
        ("$12", "12"),
        ("12%", "12"),
        ("$12", "12 EUR"),
        ("$12 EUR", "12 EUR"),
        ("12,34", "1234"),
        ("--5", "5"),
    ],
)
def test_spellings_that_do_not(given: str, accepted: str) -> None:
    assert not same_answer(given, accepted)
