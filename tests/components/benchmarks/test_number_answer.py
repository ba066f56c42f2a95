from decimal import Decimal

import pytest

from agentcompass.components.benchmarks._number_answer import final_number


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("#### 18", "18"),
        ("She makes 16 - 3 - 4 = 9 eggs.\n#### 18", "18"),
        ("#### $1,234.50", "1234.5"),
        ("#### 18 dollars", "18"),
        ("#### **18**", "18"),
        ("####18.", "18"),
        ("#### -5", "-5"),
        ("#### \u22125", "-5"),
        ("#### -$5", "-5"),
        ("#### $-5", "-5"),
        ("#### 150%", "150"),
        ("#### .5", "0.5"),
        ("#### 1,450,000", "1450000"),
        ("first #### 3\n#### 4\nand that is it, 99 times sure", "4"),
        ("#### Step 1: add 2\n#### 2. Multiply\nThe final answer is 42.", "42"),
        ("Final answer: 70,000", "70000"),
        ("**Final Answer:** $18.00", "18"),
        ("The answer is 3 + 4 = 7 apples", "7"),
        ("The final answer is \\boxed{18}. Here 2 checks were made.", "18"),
        ("\\[ x = \\boxed{80{,}000} \\]", "80000"),
        ("$\\boxed{\\$5.50}$", "5.5"),
        ("\\boxed{\\text{about } 12 \\%}", "12"),
        ("\\boxed{x = 12}", "12"),
        ("\\boxed{1} then \\boxed{2}", "2"),
        ("10 - 3 gives 7", "7"),
        ("so 10-3", "3"),
        ("He has 3 apples and 1,200 pears.", "1200"),
        ("It costs \uff11\uff18 yen", "18"),
        ("18.000", "18"),
        ("007", "7"),
        ("Answer: 12\nI used 3 steps.", "12"),
    ],
)
def test_the_number_an_answer_settles_on(answer: str, number: str) -> None:
    assert final_number(answer) == Decimal(number)


@pytest.mark.parametrize("answer", ["", "none at all", "#### 1/2", "so the answer is 3/4", "####"])
def test_no_number(answer: str) -> None:
    assert final_number(answer) is None


def test_equal_in_value() -> None:
    assert final_number("#### 18") == final_number("18.0") == final_number("$18.00")
    assert final_number("#### 18") != final_number("#### 180")
