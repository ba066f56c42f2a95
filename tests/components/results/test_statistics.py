import itertools
import math
import random

import pytest

from agentcompass.components.results.statistics import (
    clustered_standard_error,
    incomplete_beta,
    mean,
    pass_at,
    stratified_standard_error,
    t_interval,
    t_quantile,
    variance,
    wilson,
)

# Student's t, two-sided 95 %: the printed tables (3 decimals), e.g. Abramowitz & Stegun 26.10.
T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
T_975 |= {10: 2.228, 15: 2.131, 20: 2.086, 25: 2.060, 30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980}


@pytest.mark.parametrize(("freedom", "t"), T_975.items())
def test_t_quantiles_are_those_of_the_tables(freedom, t):
    assert t_quantile(0.975, freedom) == pytest.approx(t, abs=0.0005)


def test_t_quantiles_agree_with_closed_forms():
    for p in (0.6, 0.75, 0.9, 0.975, 0.995, 0.9999):
        cauchy = math.tan(math.pi * (p - 0.5))
        two = (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
        assert t_quantile(p, 1) == pytest.approx(cauchy, rel=1e-11)
        assert t_quantile(p, 2) == pytest.approx(two, rel=1e-11)
        assert t_quantile(1 - p, 2) == pytest.approx(-two, rel=1e-11)
    assert t_quantile(0.5, 7) == 0
    assert t_quantile(0.975, 1e7) == pytest.approx(1.959964, abs=1e-5)
    assert t_quantile(0.95, 10) == pytest.approx(1.812461, abs=1e-6)
    assert t_quantile(0.975, 2.5) == pytest.approx(3.558, abs=0.05)  # between those of 2 and 3


def test_t_quantiles_need_sense():
    for p, freedom in ((0, 3), (1, 3), (0.9, 0), (0.9, -1)):
        with pytest.raises(ValueError, match="no t quantile"):
            t_quantile(p, freedom)


def test_incomplete_beta_has_its_known_values():
    assert incomplete_beta(0.3, 1, 1) == pytest.approx(0.3, rel=1e-14)
    assert incomplete_beta(0.3, 2, 1) == pytest.approx(0.09, rel=1e-13)
    assert incomplete_beta(0.5, 4.5, 4.5) == pytest.approx(0.5, rel=1e-13)
    # I_x(2, 3) = sum over j >= 2 of C(4, j) x^j (1-x)^(4-j)
    x = 0.37
    tail = sum(math.comb(4, j) * x**j * (1 - x) ** (4 - j) for j in (2, 3, 4))
    assert incomplete_beta(x, 2, 3) == pytest.approx(tail, rel=1e-13)


# Wilson without continuity correction: the worked values of Newcombe 1998, Stat. Med. 17, table I.
@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_has_the_published_values(successes, n, low, high):
    assert wilson(successes, n) == pytest.approx((low, high), abs=0.00005)


def test_wilson_is_symmetric_and_stays_in_range():
    for n in (1, 2, 5, 100):
        for c in range(n + 1):
            low, high = wilson(c, n)
            assert 0 <= low <= c / n <= high <= 1
            assert wilson(n - c, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)
    assert wilson(1, 1)[1] == 1.0
    assert wilson(0, 1)[0] == 0.0
    with pytest.raises(ValueError, match="wilson"):
        wilson(0, 0)


def test_pass_at_is_the_share_of_draws_with_a_success():
    for n in range(1, 8):
        for c in range(n + 1):
            outcomes = [1] * c + [0] * (n - c)
            for j in range(1, n + 1):
                draws = list(itertools.combinations(outcomes, j))
                share = sum(max(draw) for draw in draws) / len(draws)
                assert pass_at(n, c, j) == pytest.approx(share, rel=1e-15)


def test_pass_at_is_not_available_with_fewer_attempts_than_drawn():
    assert pass_at(2, 0, 4) is None
    assert pass_at(2, 2, 4) is None
    assert pass_at(0, 0, 1) is None
    assert pass_at(4, 0, 4) == 0.0
    assert pass_at(4, 1, 4) == 1.0
    assert pass_at(1000, 1, 500) == pytest.approx(0.5)
    for wrong in ((4, 5, 1), (4, -1, 1), (4, 1, 0), (4, 1, -1)):
        with pytest.raises(ValueError, match="pass_at"):
            pass_at(*wrong)


def test_the_standard_error_is_of_the_tasks_not_of_the_attempts():
    # 1, 2, 3, 4: mean 2.5, squares 2.25 + .25 + .25 + 2.25 = 5, /3, /4
    assert clustered_standard_error([1, 2, 3, 4]) == pytest.approx(math.sqrt(5 / 12))
    assert clustered_standard_error([1.0]) is None
    assert clustered_standard_error([0.1, 0.1, 0.1]) == 0.0


def test_the_interval_is_the_textbooks():
    # 1, 2, 3, 4 with t(3) = 3.182446: 2.5 ± 3.182446 * .645497
    low, high = t_interval(2.5, math.sqrt(5 / 12), 3)
    assert (low, high) == pytest.approx((0.445739, 4.554261), abs=1e-6)


def test_the_stratified_error_has_welchs_degrees_of_freedom():
    # s² = 1 and 4, n = 3 and 3: v = 1/3, 4/3; error = sqrt(5/3)/2;
    # df = (5/3)² / ((1/9)/2 + (16/9)/2) = (25/9) / (17/18) = 50/17
    error, freedom = stratified_standard_error([[1, 2, 3], [0, 2, 4]])
    assert error == pytest.approx(math.sqrt(5 / 3) / 2)
    assert freedom == pytest.approx(50 / 17)
    assert stratified_standard_error([[1, 2], [3]]) is None
    assert stratified_standard_error([[1, 1], [0, 0]]) is None
    assert stratified_standard_error([]) is None


def test_no_result_depends_on_the_order_of_values():
    source = random.Random(11)
    values = [source.random() * 10 ** source.randrange(-8, 8) for _ in range(200)]
    shuffled = source.sample(values, len(values))
    assert mean(values) == mean(shuffled)
    assert variance(values) == variance(shuffled)
    assert clustered_standard_error(values) == clustered_standard_error(shuffled)


def test_the_95_percent_interval_covers_the_truth_about_95_times_in_100():
    source = random.Random(12)
    hits = 0
    for _ in range(2_000):
        sample = [source.gauss(0.5, 0.2) for _ in range(6)]
        low, high = t_interval(mean(sample), clustered_standard_error(sample), 5)
        hits += low <= 0.5 <= high
    assert 0.93 < hits / 2_000 < 0.97
