"""What graders and results share."""

from atp.scoring.exact_match import ExactMatch
from atp.scoring.statistics import (
    Interval,
    bounds,
    clustered,
    clustered_standard_error,
    pass_at_k,
    pass_hat_k,
    wilson,
)

__all__ = [
    "ExactMatch",
    "Interval",
    "bounds",
    "clustered",
    "clustered_standard_error",
    "pass_at_k",
    "pass_hat_k",
    "wilson",
]
