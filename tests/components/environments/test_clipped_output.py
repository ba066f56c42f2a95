import random

import pytest

from agentcompass.components.environments._clipped_output import ClippedOutput


def clipped(data: bytes, limit: int, pieces: int = 1) -> tuple[str, int]:
    output = ClippedOutput(limit)
    size = max(1, len(data) // pieces)
    for start in range(0, len(data), size):
        output.add(data[start : start + size])
    return output.text()


@pytest.mark.parametrize("size", [0, 1, 49, 50, 51, 99, 100])
@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_up_to_the_limit_nothing_is_lost(size: int, pieces: int) -> None:
    data = bytes(65 + i % 26 for i in range(size))
    assert clipped(data, 100, pieces) == (data.decode(), 0)


@pytest.mark.parametrize("pieces", [1, 7, 100_000])
def test_over_the_limit_head_and_tail_stand_around_the_number_of_bytes_between(
    pieces: int,
) -> None:
    data = "".join(f"{i}\n" for i in range(10_000)).encode()
    text, dropped = clipped(data, 100, pieces)
    head, tail = text.split(f"\n[… {dropped} bytes dropped …]\n")
    assert data.startswith(head.encode())
    assert data.endswith(tail.encode())
    assert len(head) + len(tail) + dropped == len(data)
    assert len(head) == len(tail) == 50


@pytest.mark.parametrize("limit", range(40, 60))
@pytest.mark.parametrize("character", ["é", "汉", "🙂"])
def test_a_cut_never_leaves_half_a_character(limit: int, character: str) -> None:
    data = (character * 1000).encode()
    text, dropped = clipped(data, limit)
    assert "\ufffd" not in text
    kept = text.count(character)
    assert kept * len(character.encode()) + dropped == len(data)
    assert limit - 8 < kept * len(character.encode()) <= limit


def test_any_bytes_in_any_pieces_give_the_same_text() -> None:
    rng = random.Random(3)
    for _ in range(50):
        data = rng.randbytes(rng.randrange(400))
        assert len({clipped(data, 128, pieces) for pieces in (1, 2, 13, 400)}) == 1


def test_memory_stays_near_the_limit() -> None:
    output = ClippedOutput(1000)
    for _ in range(1000):
        output.add(b"x" * 65536)
    kept = len(output._head) + len(output._tail)
    assert kept <= 5 * 1000
    assert output.text()[1] == 65536 * 1000 - 1000
