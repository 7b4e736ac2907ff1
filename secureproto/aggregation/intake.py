"""What a peer's numbers must satisfy before they may enter a sum.

Invariant: after these checks no sum, product or square of the room overflows or turns NaN. A refusal names the
site and the tensor, and never a number, a class or a count: error texts travel further than uploads may.
"""

import numpy as np

from secureproto.aggregation.layout import F64, Values
from secureproto.errors import Rejected
from secureproto.wire.reasons import Reason

# Squares of such entries, times a count, summed over 10^5 sites, stay under 10^250: nothing overflows float64.
LARGEST_ENTRY = 1e100
# Exact in float64 also when summed over 8,000 sites and classes; the bound of counts in messages too.
LARGEST_COUNT = float(2**40)


def check_values(values: Values, *, site: str, what: str) -> None:
    """Refuse floating-point entries that would poison a sum over sites.

    Raises:
        Rejected: NON_FINITE for NaN or infinity, NORM_BOUND for an entry beyond `LARGEST_ENTRY`.
    """
    if not np.isfinite(values).all():
        raise Rejected(
            Reason.NON_FINITE, f"site {site!r}: {what} is not finite", hint="lower the learning rate and train again"
        )
    if values.dtype == np.float64 and values.size and max(values.max(), -values.min()) > LARGEST_ENTRY:
        raise Rejected(Reason.NORM_BOUND, f"site {site!r}: {what} has an entry beyond all bounds")


def check_class_sums(class_sums: F64, *, site: str) -> None:
    """Refuse class sums and counts (C, d+1) that no set of records can give.

    Counts are whole numbers from 0 on; where a count is 0 its sum is 0.

    Raises:
        Rejected: NON_FINITE, NORM_BOUND as in `check_values`; SCHEMA for impossible counts or sums.
    """
    check_values(class_sums, site=site, what="the matrix of class sums and counts")
    sums, counts = class_sums[:, :-1], class_sums[:, -1]
    if (counts < 0).any() or (counts != np.floor(counts)).any() or (counts > LARGEST_COUNT).any():
        raise Rejected(Reason.SCHEMA, f"site {site!r}: a class count is not a possible number of records")
    if sums[counts == 0].any():
        raise Rejected(Reason.SCHEMA, f"site {site!r}: a class without records has a sum")


def check_not_negative(class_sums: F64, *, site: str) -> None:
    """Refuse negative class sums: what the linear form asks of a study that names it (see `heads`).

    Raises:
        Rejected: SCHEMA.
    """
    if (class_sums < 0).any():
        raise Rejected(
            Reason.SCHEMA,
            f"site {site!r}: a class sum is negative, which the study's linear form excludes",
            hint="embeddings that can be negative need relation.form = auto or matrix",
        )
