import time
from decimal import Decimal

import pytest

from agentcompass.components.benchmarks._number_answer import MAX_CHARACTERS, final_number


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
        ("To answer this, she has 16 eggs.\n9*2=18.\nThe final answer is:\n\n18", "18"),
        ("First, answer the question: 16 eggs a day.\nSo she makes $18 at the market.", "18"),
        ("Check the answer with 3 eggs eaten.\nHence \\[ 18 \\]", "18"),
        ("The answer to the question is 18, of 20 asked.", "18"),
        ("The answer is 3 at first.\n\n**Final answer**\n\n$18\n\nThis took 2 steps.", "18"),
        ("### Answer:\n\n1. She has 16 eggs.\n2. She sells 9, so $18.", "18"),
        ("The answer is 16? No.\n**Answer:**\n\n- 18 dollars\n\nOf 2 kinds.", "18"),
        ("The final answer is:\n\n-18", "-18"),
        ("#### 9 * 2 = 18", "18"),
        ("#### 18 / 2 = 9", "9"),
        ("#### 16 - 3 - 4 = 9, 9*2 = 18", "18"),
        ("#### 18 = 9 * 2", "18"),
        ("#### 18 (9 eggs, as 16 - 7 = 9)", "18"),
        ("#### 3*200", "3"),
        ("#### = 18\nThat was step 3.", "18"),
        ("#### <number>18</number>\nThat was step 3.", "18"),
        ("> #### 18\n>\n> That was step 3.", "18"),
        ("#### 1. First\n\n#### 2 eggs for muffins\n...\nThe answer is \\boxed{18}", "18"),
        ("\\boxed{9} eggs, so\n#### 18", "18"),
        ("#### 1 000", "1000"),
        ("#### 1\u00a0000", "1000"),
        ("It is 12\u202f000.", "12000"),
        ("In 3 100 page books there are 300 pages; that is 2 200", "200"),
        ("#### - 18", "-18"),
        ("#### 3 - 21 = - 18", "-18"),
    ],
)
def test_the_number_an_answer_settles_on(answer: str, number: str) -> None:
    assert final_number(answer) == Decimal(number)


@pytest.mark.parametrize("answer", ["", "none at all", "#### 1/2", "so the answer is 3/4", "####"])
def test_no_number(answer: str) -> None:
    assert final_number(answer) is None


@pytest.mark.parametrize(
    "part", ["Answer:\n", "answer is ", "#### 2. Add\n", "\\boxed{", "answer to ", "1(", " ", "1 "]
)
def test_odd_long_answers_are_read_in_bounded_time(part: str) -> None:
    begin = time.process_time()
    final_number(part * (MAX_CHARACTERS // len(part)))
    assert time.process_time() - begin < 5


def test_equal_in_value() -> None:
    assert final_number("#### 18") == final_number("18.0") == final_number("$18.00")
    assert final_number("#### 18") != final_number("#### 180")
