"""The comparison of records that are independent of each other."""

from monitor.records.arguments import AlteredArguments, altered_arguments
from monitor.records.codes import Code, difference
from monitor.records.comparison import compare
from monitor.records.nature import Nature
from monitor.records.span_reading import model_calls, rejected_calls

__all__ = [
    "AlteredArguments",
    "Code",
    "Nature",
    "altered_arguments",
    "compare",
    "difference",
    "model_calls",
    "rejected_calls",
]
