"""From the histories of runs to figures: which version is reported, means over sites and seeds, paired comparisons.

Invariants of the room:
1. A choice (reported version, site's model) never looks at test records; it is made for each method and seed.
2. A run that did not end counts in no mean and stands among the failures; a score that is not defined counts in no
   mean and its sites are named. What is left out is always said.
3. A comparison takes only seeds that both methods completed, on one partition.
"""

from secureproto.simulation.results.comparing import Comparison, Counts
from secureproto.simulation.results.parts import NOT_COMPARED, Across, Part, across
from secureproto.simulation.results.reported import LAST, RULES, VALIDATED, Rule
from secureproto.simulation.results.rows import rows
from secureproto.simulation.results.summarise import summarise
from secureproto.simulation.results.summary import (
    AtPoint,
    Estimate,
    Failure,
    MethodSummary,
    OverSites,
    Summary,
    Target,
)
from secureproto.simulation.results.terminal import Block, blocks
from secureproto.simulation.results.writing import write_csv, write_json, write_summary

__all__ = [
    "LAST",
    "NOT_COMPARED",
    "RULES",
    "VALIDATED",
    "Across",
    "AtPoint",
    "Block",
    "Comparison",
    "Counts",
    "Estimate",
    "Failure",
    "MethodSummary",
    "OverSites",
    "Part",
    "Rule",
    "Summary",
    "Target",
    "across",
    "blocks",
    "rows",
    "summarise",
    "write_csv",
    "write_json",
    "write_summary",
]
