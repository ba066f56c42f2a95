"""The formulas behind the numbers, each with its source. Pure; no scipy needed."""

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist


def mean(values: Sequence[float], of: int | None = None) -> float:
    """Arithmetic mean, the same whatever the order (exactly rounded sum). Needs a value.

    `of`: how many there are, those that are not in `values` being 0.
    """
    return math.fsum(values) / (len(values) if of is None else of)


def pass_at(n: int, c: int, j: int) -> float | None:
    """Unbiased estimate of the chance that one of j attempts succeeds, from c successes in n.

    1 − C(n−c, j) / C(n, j); None where n < j (it cannot be estimated).
    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code"
    (arXiv 2107.03374), section 2.1. Computed exactly, rounded once; as
    C(n−j, c) / C(n, c), which is the same and cheap where c is small.
    """
    if j < 1 or not 0 <= c <= n:
        raise ValueError(f"pass_at needs j >= 1 and 0 <= c <= n, got n={n}, c={c}, j={j}")
    if n < j:
        return None
    fewer, more = sorted((c, j))
    return float(1 - Fraction(math.comb(n - more, fewer), math.comb(n, fewer)))


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval for a proportion; sensible for few observations and at 0 and 1.

    (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n).
    Source: Wilson 1927, J. Am. Stat. Assoc. 22, 209-212.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"wilson needs 0 <= successes <= n and n >= 1, got {successes} of {n}")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p = successes / n
    centre = p + z * z / (2 * n)
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At the ends the formula gives exactly 0 or 1; floating point would miss it by an ulp.
    low = 0.0 if successes == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if successes == n else min(1.0, (centre + spread) / scale)
    return low, high


def clustered_standard_error(cluster_means: Sequence[float]) -> float | None:
    """Standard error of the mean of the clusters' means; None for fewer than 2 clusters.

    s / √G, s² = Σ(x_g − x̄)² / (G − 1). A task's attempts resemble each other, so the task, not
    the attempt, is the unit; for an estimate that weighs tasks equally this is the cluster-robust
    error with its small-sample factor G / (G − 1).
    Source: Liang & Zeger 1986, Biometrika 73, 13-22; for evaluations Miller 2024, "Adding Error
    Bars to Evals" (arXiv 2411.00640), section 2.2.
    """
    count = len(cluster_means)
    if count < 2:
        return None
    return math.sqrt(variance(cluster_means) / count)


def variance(values: Sequence[float]) -> float:
    """Sample variance Σ(x − x̄)² / (n − 1); exactly 0 for equal values. Needs 2 values."""
    if min(values) == max(values):
        return 0.0
    centre = mean(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)


def stratified_standard_error(strata: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """(standard error, degrees of freedom) of the mean of the strata's means.

    √(Σ s_h²/n_h) / H, with the degrees of freedom of Welch and Satterthwaite,
    (Σ v_h)² / Σ(v_h² / (n_h − 1)), v_h = s_h²/n_h. None unless every stratum has 2 values and
    some stratum varies.
    Source: Cochran 1977, "Sampling Techniques", 5.4; Satterthwaite 1946, Biometrics 2, 110-114.
    """
    if not strata or any(len(values) < 2 for values in strata):
        return None
    parts = [(variance(values) / len(values), len(values) - 1) for values in strata]
    total = math.fsum(v for v, _ in parts)
    if total == 0:
        return None
    freedom = total**2 / math.fsum(v**2 / df for v, df in parts)
    return math.sqrt(total) / len(strata), freedom


def t_interval(
    centre: float, standard_error: float, degrees_of_freedom: float, confidence: float = 0.95
) -> tuple[float, float]:
    """centre ± t · standard_error, t the quantile of Student's distribution (Student 1908)."""
    reach = t_quantile((1 + confidence) / 2, degrees_of_freedom) * standard_error
    return centre - reach, centre + reach


def t_quantile(p: float, degrees_of_freedom: float) -> float:
    """The value that Student's t stays under with probability p, 0 < p < 1.

    Found by bisection on the distribution function
    F(t) = 1 − I_x(ν/2, 1/2) / 2, x = ν / (ν + t²), for t ≥ 0.
    Source: Abramowitz & Stegun 1964, 26.7.1 with 26.5.27.
    """
    if not 0 < p < 1 or degrees_of_freedom <= 0:
        raise ValueError(f"no t quantile for p={p}, degrees of freedom {degrees_of_freedom}")
    if p == 0.5:
        return 0.0
    tail = min(p, 1 - p)
    low, high = 0.0, 1.0
    while _t_tail(high, degrees_of_freedom) > tail:
        low, high = high, high * 2
    while (middle := (low + high) / 2) not in (low, high):
        if _t_tail(middle, degrees_of_freedom) > tail:
            low = middle
        else:
            high = middle
    return middle if p > 0.5 else -middle


def _t_tail(t: float, freedom: float) -> float:
    """P(T > t) for t >= 0."""
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), about 14 digits.

    Continued fraction (DLMF 8.17.22, https://dlmf.nist.gov/8.17) evaluated by Lentz's method;
    I_x(a, b) = 1 − I_{1−x}(b, a) where that converges faster (8.17.4).
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) / a
    return front * _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / ((1 + term * d) or tiny)
            c = (1 + term / c) or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value
