"""What one attempt at a round may release at the most: the claim that is reserved, charged and countersigned.

Invariants: a composition has one form as text, so equal compositions have equal bytes and digests; noise multipliers
and rates are the shortest decimals that read back as the same double, and nothing else is read; a claim holds events,
never an ε: ε is computed from them.
Source: PRIVACY.md, "Ledger" and "Accounting".
"""

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from itertools import chain
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from secureproto.privacy.events import Composition, Gaussian, Mechanism, SampledGaussian, Unprotected, merge, repeated
from secureproto.wire.messages.base import Count, Digest, Hex128, Message, Name

MAX_RELEASES = 32  # kinds of event in one claim; a round of today has three: training, prototypes, metrics
MAX_TIMES = 10_000  # of one kind in one claim; bounds what a hostile entry can make a reader unfold

Number = Annotated[str, Field(max_length=32)]
Times = Annotated[int, Field(ge=1, le=MAX_TIMES)]
_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?(e[+-][0-9]{2,3})?\Z")


class Kind(StrEnum):
    """What an attempt is for: a round of the study, or a tuning run at the site (charged alike)."""

    ROUND = "round"
    TUNING = "tuning"


def number_text(value: float) -> str:
    """The shortest decimal that reads back as this double."""
    return repr(float(value))


def number(text: str) -> float:
    """The double of a text of `number_text`.

    Raises:
        ValueError: any other text, be it of the same number.
    """
    value = float(text) if _DECIMAL.match(text) else None
    if value is None or number_text(value) != text:
        raise ValueError("not the shortest decimal of a finite double")
    return value


class Release(Message):
    """One mechanism of `secureproto.privacy.events`, and how often it is used. Absent numbers are "" and 0."""

    mechanism: Literal["gaussian", "sampled_gaussian", "unprotected"]
    noise_multiplier: Number = ""
    sample_rate: Number = ""
    steps: Count = 0
    times: Times = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self != Release.of(self.event, self.times):
            raise ValueError("a field that its mechanism does not have")
        return self

    @classmethod
    def of(cls, event: Mechanism, times: int) -> "Release":
        """The text of an event."""
        name: Literal["gaussian", "sampled_gaussian", "unprotected"] = "unprotected"
        noise, rate, steps = "", "", 0
        if isinstance(event, Gaussian):
            name, noise = "gaussian", number_text(event.noise_multiplier)
        elif isinstance(event, SampledGaussian):
            name, noise = "sampled_gaussian", number_text(event.noise_multiplier)
            rate, steps = number_text(event.sample_rate), event.steps
        # Unchecked: the check compares with what is made here.
        return cls.model_construct(mechanism=name, noise_multiplier=noise, sample_rate=rate, steps=steps, times=times)

    @property
    def event(self) -> Mechanism:
        """The event. Raises ValueError for numbers that no event has."""
        if self.mechanism == "unprotected":
            return Unprotected()
        noise = number(self.noise_multiplier)
        if self.mechanism == "gaussian":
            return Gaussian(noise)
        return SampledGaussian(noise, number(self.sample_rate), self.steps)


def releases(composition: Composition) -> tuple[Release, ...]:
    """The one form of a composition, whatever its order. Raises ValueError: more than MAX_TIMES of one kind."""
    merged = join([composition])
    if any(times > MAX_TIMES for _, times in merged):
        raise ValueError(f"over {MAX_TIMES} of one event")
    return tuple(Release.of(event, times) for event, times in merged)


def join(compositions: Iterable[Composition]) -> Composition:
    """All of several compositions, as one."""
    counts: Counter[Mechanism] = Counter()
    sampled: list[Mechanism] = []
    for event, times in chain.from_iterable(compositions):
        if isinstance(event, SampledGaussian):
            sampled += repeated(event, times)
        else:
            counts[event] += times
    # Each other event once, for its place; unfolded a thousand times it would cost a round its patience.
    return tuple((event, counts.get(event, times)) for event, times in merge([*sampled, *counts]))


def composition(said: Iterable[Release]) -> Composition:
    """The events of their text."""
    return join([tuple((release.event, release.times) for release in said)])


class Claim(Message):
    """The worst case of one attempt. `plan`: digest of the plan of the study that it is a step of.

    For tuning, `round` is the number of the trial.
    """

    LABEL: ClassVar[str] = "secureproto/v1/ledger-claim"
    data_set: Hex128
    study: Name
    round: Count
    attempt: Annotated[int, Field(ge=1, le=2**40)]
    kind: Kind = Kind.ROUND
    adjacency: Literal["add_remove"] = "add_remove"
    events: Annotated[tuple[Release, ...], Field(min_length=1, max_length=MAX_RELEASES)]
    plan: Digest

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.events != releases(self.composition):
            raise ValueError("events are not in their one form")
        return self

    @property
    def composition(self) -> Composition:
        """What is charged."""
        return composition(self.events)

    @property
    def place(self) -> tuple[str, Kind, int]:
        """The round or trial, whatever the attempt."""
        return self.study, self.kind, self.round

    def __str__(self) -> str:
        what = "round" if self.kind is Kind.ROUND else "tuning trial"
        return f"{what} {self.round} of study {self.study}, attempt {self.attempt}"
