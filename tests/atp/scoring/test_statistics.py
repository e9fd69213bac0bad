"""Intervals, repeats, pass@k and pass^k, against published or independently computed numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.scoring import bounds, clustered, clustered_standard_error, pass_at_k, pass_hat_k, wilson

# scipy 1.17, `binomtest(k, n).proportion_ci(method="wilson")`; 6 of 32 is a published R example.
WILSON = [
    (0, 3, 0, 0.561497),
    (3, 3, 0.438503, 1),
    (0, 10, 0, 0.277533),
    (1, 10, 0.017876, 0.404150),
    (5, 10, 0.236593, 0.763407),
    (8, 10, 0.490162, 0.943318),
    (10, 10, 0.722467, 1),
    (18, 20, 0.698966, 0.972134),
    (24, 30, 0.626943, 0.904949),
    (31, 40, 0.624969, 0.876839),
    (17, 40, 0.285094, 0.578049),
    (45, 50, 0.786398, 0.956524),
    (61, 72, 0.746777, 0.912493),
    (400, 500, 0.762711, 0.832715),
    (6, 32, 0.088895, 0.353092),
]

# Four tasks with three repeats; by hand and by the formulas of Miller 2024, appendix A.
CLUSTERS = [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize(("passed", "of", "low", "high"), WILSON)
def test_wilson_is_scipys(passed: int, of: int, low: float, high: float) -> None:
    interval = wilson(passed, of)
    assert [interval.low, interval.high] == pytest.approx([low, high], abs=1e-6)


@given(st.integers(1, 500).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_wilson_holds_the_proportion_and_stays_in_the_unit_interval(case: tuple[int, int]) -> None:
    passed, of = case
    interval = wilson(passed, of)
    assert 0 <= interval.low <= passed / of <= interval.high <= 1


@pytest.mark.parametrize(("passed", "of"), [(0, 0), (-1, 3), (4, 3)])
def test_what_is_no_proportion_has_no_interval(passed: int, of: int) -> None:
    with pytest.raises(ValueError, match="no proportion"):
        wilson(passed, of)


def test_the_clustered_standard_error_is_millers() -> None:
    assert clustered_standard_error(CLUSTERS) == pytest.approx(0.186339, abs=1e-6)


def test_clusters_of_one_give_bernoullis_standard_error() -> None:
    singles = [[score] for cluster in CLUSTERS for score in cluster]
    assert clustered_standard_error(singles) == pytest.approx(math.sqrt(0.5 * 0.5 / 12))


def test_the_clustered_interval_is_mean_and_z_standard_errors() -> None:
    interval = clustered(CLUSTERS)
    half = 1.959963984540054 * 0.18633899812498247
    assert [interval.low, interval.high] == pytest.approx([0.5 - half, 0.5 + half])
    assert interval.method == "cluster"


def test_all_the_same_has_wilsons_interval_over_the_tasks() -> None:
    interval = clustered([[1.0, 1.0]] * 10)
    assert [interval.low, interval.high] == pytest.approx([0.722467, 1.0], abs=1e-6)
    assert interval.method == "wilson over clusters"


def test_no_scores_have_no_standard_error() -> None:
    with pytest.raises(ValueError, match="no scores"):
        clustered_standard_error([[], []])


def test_pass_at_k_of_6_in_8() -> None:
    assert [pass_at_k(8, 6, k) for k in (1, 2, 3)] == [0.75, pytest.approx(0.964286, abs=1e-6), 1.0]


def test_pass_at_k_of_3_in_10() -> None:
    wanted = [0.3, 0.533333, 0.708333, 0.833333, 0.916667]
    assert [pass_at_k(10, 3, k) for k in range(1, 6)] == pytest.approx(wanted, abs=1e-6)


def test_pass_hat_k_of_6_in_8() -> None:
    wanted = [0.75, 0.535714, 0.357143, 0.214286, 0.107143, 0.035714, 0, 0]
    assert [pass_hat_k(8, 6, k) for k in range(1, 9)] == pytest.approx(wanted, abs=1e-6)


def test_pass_hat_k_over_tasks() -> None:
    means = [sum(pass_hat_k(4, c, k) for c in (4, 2, 0)) / 3 for k in range(1, 5)]
    assert means == pytest.approx([0.5, 0.388889, 0.333333, 0.333333], abs=1e-6)


@pytest.mark.parametrize("k", [0, 5])
def test_more_tries_asked_about_than_made_is_an_error(k: int) -> None:
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match=f"k = {k} is undefined for 4 tries"):
            estimate(4, 2, k)


def test_more_passed_than_tried_is_an_error() -> None:
    with pytest.raises(ValueError, match="5 of 4"):
        pass_at_k(4, 5, 1)


def test_bounds_take_all_that_is_missing_for_wrong_and_for_right() -> None:
    assert bounds([1.0, 0.0, 1.0], missing=2) == (0.4, 0.8)
    assert bounds([], missing=3) == (0.0, 1.0)


def test_nothing_scheduled_has_no_bounds() -> None:
    with pytest.raises(ValueError, match="no mean"):
        bounds([], missing=0)
