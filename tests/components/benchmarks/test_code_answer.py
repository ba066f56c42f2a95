"""Answers in the spellings models really use; the code found must give the right value."""

import time
from typing import Any

import pytest

from agentcompass.components.benchmarks._code_answer import defining_code, find_code

PROMPT = '''from typing import List


def total(numbers: List[int]) -> int:
    """Sum of the numbers.
    >>> total([1, 2])
    3
    """
'''
GOOD = "def total(numbers):\n    return sum(numbers)\n"
BODY = "    return sum(numbers)\n"


def value(answer: str) -> Any:
    code = find_code(answer, "total", PROMPT)
    assert code is not None
    names: dict[str, Any] = {}
    exec(compile(PROMPT, "prompt", "exec"), names)
    names.pop("total")
    exec(compile(code, "code", "exec"), names)
    return names["total"]([1, 2, 3])


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{GOOD}```",
        f"Here you are:\n\n```Python3\n{GOOD}```\nIt sums.",
        f"```\n{GOOD}```",
        f"```py title=total.py\n{GOOD}\n```\n",
        f"``` python\n{GOOD}```",
        f"````python\n{GOOD}````",
        f"~~~python\n{GOOD}~~~",
        f"```{{.python}}\n{GOOD}```",
        f"```python\n{GOOD}",
        f"```python\r\n{GOOD}```".replace("\n", "\r\n").replace("\r\r", "\r"),
        "1. First\n\n   ```python\n" + "".join(f"   {x}\n" for x in GOOD.splitlines()) + "   ```\n",
        f"```python\n{PROMPT}{BODY}```",
        GOOD,
        PROMPT + BODY,
        f"Sure! Here is the code:\n\n{GOOD}\nThis function returns the sum.",
        f"I will write def total later.\n{GOOD}",
        BODY,
        "return sum(numbers)",
        f"```python\n{BODY}```",
        "```python\nreturn sum(numbers)\n```",
        "    result = 0\n    for n in numbers:\n        result += n\n    return result\n",
        f"```python\ndef total(numbers):\n    return 0\n```\nNo, better:\n```python\n{GOOD}```",
        f"```python\n{GOOD}```\nUse it so:\n```python\nprint(total([1]))\n```",
        f"```bash\npip install x\n```\n```python\n{GOOD}```\n```text\n6\n```",
        f"```python\n{GOOD}```\nSo:\n```python\nfrom solution import total\nprint(total([1]))\n```",
        f"```python\n{GOOD}```\nUse it so:\n```python\ntotal = total([1, 2])\nprint(total)\n```",
        f"```python\n{GOOD}```\nThen:\n```python\ntotal = 3\n```",
        f"{GOOD}\nUse it so:\n```python\nfrom solution import total\n```",
        f"```python\n{BODY}```\nUse it so:\n```python\nfrom solution import total\n```",
        "```python\ntotal = 3\n```\nor\n```python\nfrom functools import partial\n"
        "total = partial(sum, start=0)\n```",
        "```python\ntotal = sum\n```",
        "```python\nfrom builtins import sum as total\n```",
        "```python\nimport functools\ndef add(a, b):\n    return a + b\n```\nand\n"
        "```python\ndef total(numbers):\n    return functools.reduce(add, numbers)\n```",
        "```python\nclass S:\n    def total(self): pass\n\ntotal = lambda n: sum(n)\n```",
        f'```python\n{GOOD}\nDOC = """\n```\nnot an end\n```\n"""\n```',
        f"<think>\nmaybe\n</think>\n\n```python\n{GOOD}```",
        f"\ufeff```python\n{GOOD}```",
    ],
)
def test_code_is_found(answer: str) -> None:
    assert value(answer) == 6


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "done",
        "I wrote it to solution.py.",
        "```\n\n```",
        "```python\nprint(1)\n```",
        "42",
        "'x'",
    ],
)
def test_no_code_is_invented(answer: str) -> None:
    assert find_code(answer, "total", PROMPT) is None


@pytest.mark.parametrize(
    "answer",
    [
        "def total(numbers) is what I want\n" + "some prose (with\nbrackets\n" * 3000,
        "def total(n):\n    return 1\n" * 2000 + "\nprose here is\n" * 3000,
        "import x\n" * 3000 + "def total(n) it\n",
        "```python\nx = (\n```\n" * 3000,
        "def total(n):\n    return " + "(" * 50_000,
    ],
)
def test_odd_long_answers_are_read_in_bounded_time(answer: str) -> None:
    begin = time.process_time()
    find_code(answer, "total", PROMPT)
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    "use", ["from solution import total\nprint(total([1]))", "total = total([1])", "total = 3"]
)
def test_an_example_of_its_use_defines_nothing(use: str) -> None:
    answer = f"I wrote solution.py. Use it so:\n```python\n{use}\n```"
    assert defining_code(answer, "total", PROMPT) is None


def test_prose_around_bare_code_is_cut_off() -> None:
    answer = f"from what I see, sum it.\n\nimport math\n\n{GOOD}\nNote that (this) is fast.\nBye\n"
    code = find_code(answer, "total", PROMPT)
    assert code is not None
    assert code.startswith("import math")
    assert "Note" not in code
