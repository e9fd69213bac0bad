"""What a set of scores says: intervals, repeats, pass@k and pass^k."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import NormalDist

Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval and how it was made."""

    low: float
    high: float
    method: str


def wilson(passed: int, of: int, z: float = Z95) -> Interval:
    """Wilson's score interval of a proportion; holds for few items, where the normal one does not.

    Centre (p + z²/2n) / (1 + z²/n), half width z √(p(1-p)/n + z²/4n²) / (1 + z²/n).

    Args:
        passed: Items that passed.
        of: Items, at least one.
        z: Quantile of the normal distribution; the default gives 95 %.

    Raises:
        ValueError: There is no item, or more passed than there are.
    """
    if of < 1 or not 0 <= passed <= of:
        raise ValueError(f"{passed} of {of} is no proportion")
    p = passed / of
    scale = 1 + z * z / of
    centre = (p + z * z / (2 * of)) / scale
    half = z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / scale
    # All or none of the items reach the end exactly; rounding must not move it.
    low = 0.0 if passed == 0 else centre - half
    high = 1.0 if passed == of else centre + half
    return Interval(low, high, "wilson")


def clustered_standard_error(clusters: Sequence[Sequence[float]]) -> float:
    """Standard error of the mean of scores that come in clusters, such as the repeats of a task.

    Miller 2024 (arXiv 2411.00640), appendix A, without a small-sample factor:
    (1/n) √(Σ_c (Σ_{i∈c} (s_i - s̄))²).

    Raises:
        ValueError: There is no score.
    """
    scores = [score for cluster in clusters for score in cluster]
    mean = _mean(scores)
    return math.sqrt(sum(sum(score - mean for score in cluster) ** 2 for cluster in clusters)) / len(scores)


def clustered(clusters: Sequence[Sequence[float]], z: float = Z95) -> Interval:
    """Interval of the mean of clustered scores in [0, 1]: mean ± z standard errors, inside [0, 1].

    Where every score is the same the standard error is 0 and says nothing; the interval is then
    Wilson's over the clusters, each counted once (only for scores of 0 or 1).

    Raises:
        ValueError: There is no score.
    """
    mean = _mean([score for cluster in clusters for score in cluster])
    error = clustered_standard_error(clusters)
    if error == 0 and mean in (0.0, 1.0):
        tasks = sum(1 for cluster in clusters if cluster)
        degenerate = wilson(tasks if mean == 1.0 else 0, tasks, z)
        return Interval(degenerate.low, degenerate.high, "wilson over clusters")
    return Interval(max(0.0, mean - z * error), min(1.0, mean + z * error), "cluster")


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased chance that at least one of k tries passes: 1 - C(n-c, k) / C(n, k) (Chen 2021).

    Args:
        n: Tries that were made.
        c: Tries that passed.
        k: Tries that are asked about.

    Raises:
        ValueError: k is larger than n, where it is undefined, or a number is out of range.
    """
    _check_tries(n, c, k)
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Unbiased chance that all of k tries pass: C(c, k) / C(n, k) (tau-bench). See `pass_at_k`."""
    _check_tries(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def bounds(scores: Collection[float], missing: int) -> tuple[float, float]:
    """The mean if everything missing were wrong, and if it were right.

    Args:
        scores: In [0, 1].
        missing: How many scores there are not.

    Raises:
        ValueError: Nothing was scheduled.
    """
    scheduled = len(scores) + missing
    if scheduled < 1 or missing < 0:
        raise ValueError(f"{len(scores)} scores and {missing} missing have no mean")
    total = math.fsum(scores)
    return total / scheduled, (total + missing) / scheduled


def _mean(scores: Sequence[float]) -> float:
    if not scores:
        raise ValueError("no scores have no mean")
    return math.fsum(scores) / len(scores)


def _check_tries(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} tries cannot have passed")
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} is undefined for {n} tries: 1 <= k <= n")
