"""The features of a tabular record: a number in a public range, or one of a few categories.

Ranges and categories are public: they stand in the study file and are the same at all sites, never taken from a
site's rows (PRIVACY, "Before the clip"). What is done when a value is missing is fixed per feature too:

- `drop`: the record takes no part; it is counted.
- `fixed`: the value `fill` stands in its place.
- `indicator`: one more column is 1; the feature's own columns are 0 (for a number: the middle of its range).
"""

from math import isfinite
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from secureproto.study.checks import Section, one_line, refuse, refuse_duplicates, text

MAX_CATEGORIES = 1_000  # each is one column of the encoded record

Text = Annotated[str, AfterValidator(text)]
Line = Annotated[str, AfterValidator(one_line)]
Missing = Literal["drop", "fixed", "indicator"]


class NumberFeature(Section):
    """A number: clamped to [min, max], then mapped to [-1, 1]. `unit` is for people and is not converted."""

    kind: Literal["number"]
    name: Text
    min: float
    max: float
    unit: Line = ""
    description: Line = ""
    missing: Missing = "drop"
    fill: float | None = None

    @property
    def width(self) -> int:
        """Columns of the encoded record."""
        return 1 + (self.missing == "indicator")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min >= self.max:
            raise refuse("min", f"{self.min} is not under max {self.max}; allowed: min < max")
        if not isfinite(self.max - self.min):
            raise refuse("max", "the range is too wide for a float; allowed: a finite max - min")
        _check_fill(self.missing, self.fill is not None)
        if self.fill is not None and not self.min <= self.fill <= self.max:
            raise refuse("fill", f"{self.fill} is outside the range; allowed: {self.min} to {self.max}")
        return self


class CategoryFeature(Section):
    """One of `values`, exactly as it is written in the data; encoded one-hot, all columns kept."""

    kind: Literal["category"]
    name: Text
    values: Annotated[tuple[Text, ...], Field(strict=False, min_length=1, max_length=MAX_CATEGORIES)]
    unit: Line = ""
    description: Line = ""
    missing: Missing = "drop"
    fill: Text | None = None

    @property
    def width(self) -> int:
        """Columns of the encoded record."""
        return len(self.values) + (self.missing == "indicator")

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_duplicates("values", self.values)
        _check_fill(self.missing, self.fill is not None)
        if self.fill is not None and self.fill not in self.values:
            raise refuse("fill", f"{self.fill!r} is not one of values; allowed: {', '.join(self.values)}")
        return self


def _check_fill(missing: Missing, given: bool) -> None:
    if missing == "fixed" and not given:
        raise refuse("fill", 'missing; missing = "fixed" needs the value to fill in')
    if missing != "fixed" and given:
        raise refuse("fill", f'only with missing = "fixed", and this one is "{missing}"')
