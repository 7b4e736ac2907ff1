"""Following rounds from the operator's desk."""

from typing import Any

from secureproto.cli.output import say
from secureproto.clock import utc_text
from secureproto.errors import Partial, Unavailable
from secureproto_server.desk import Desk

POLL_SECONDS = 0.5
TIMES = frozenset(
    ("opened", "deadline", "closed", "created", "enrolled", "last_seen", "now", "published", "root_expires")
)
Record = dict[str, Any]


def round_of(desk: Desk, study: str, number: int | None) -> Record:
    """A round as the server shows it; without a number the last one."""
    which = "last" if number is None else str(number)
    found: Record = desk.get(f"studies/{study}/rounds/{which}", meaning="look at a round")
    return found


def shown(record: Record) -> Record:
    """A record of the server for people: its times as text."""
    return {key: utc_text(value) if key in TIMES and value else value for key, value in record.items()}


def status(desk: Desk, *, timeout: float = 0.0) -> Record:
    """How the server says it is; one that does not answer yet is asked again for `timeout` seconds.

    Raises:
        Unavailable: it does not answer.
    """
    end = desk.clock.monotonic() + timeout
    while True:
        try:
            found: Record = desk.get("status", meaning="ask for the server's status")
            return found
        except Unavailable:
            if desk.clock.monotonic() >= end:
                raise
        desk.pause(POLL_SECONDS)


def _asked(desk: Desk, study: str, number: int | None, *, end: float) -> Record:
    """A round, asked for until `end` while the server does not answer: it may be starting again."""
    while True:
        try:
            return round_of(desk, study, number)
        except Unavailable:
            if desk.clock.monotonic() >= end:
                raise
        desk.pause(POLL_SECONDS)


def until_idle(desk: Desk, study: str, *, first: int | None, timeout: float) -> list[Record]:
    """Wait until the study's last round has ended and no further one is wanted; say each end as it comes.

    Returns how each round from `first` on ended.

    Raises:
        Unavailable: not within `timeout` seconds.
    """
    end = desk.clock.monotonic() + timeout
    told: dict[int, Record] = {}
    following = first if first is not None else round_of(desk, study, None)["round"]
    while True:
        last = _asked(desk, study, None, end=end)
        while following < last["round"] or (following == last["round"] and last["ended"]):
            told[following] = _end_of(_asked(desk, study, following, end=end))
            following += 1
        if last["ended"] and last["rounds_wanted"] == 0:
            _tell_if_over(desk, study)
            return [told[number] for number in sorted(told)]
        if desk.clock.monotonic() > end:
            raise Unavailable(
                f"rounds of {study} have not ended within {timeout:g} s", hint="they go on without this command"
            )
        desk.pause(POLL_SECONDS)


def _tell_if_over(desk: Desk, study: str) -> None:
    record = desk.get(f"studies/{study}", meaning="look at a study")
    if record["state"] != "open":
        say(f"study {study} is {record['state']} with version {record['version']}: no further round follows")


def demand_completed(ends: list[Record]) -> None:
    """Raises Partial when one of these rounds did not complete."""
    missed = [end for end in ends if end["outcome"] != "completed"]
    if missed:
        told = ", ".join(f"round {end['round']} {end['outcome']}" for end in missed)
        raise Partial(f"{len(missed)} of {len(ends)} rounds did not complete: {told}", hint="see round status")


def _end_of(record: Record) -> Record:
    answered, quorum = len(record["submitted"]), record["quorum"]
    say(f"round {record['round']}: {record['phase']}, {answered} answered, {quorum} needed")
    return {
        "round": record["round"],
        "outcome": record["phase"],
        "version": record["version"],
        "submitted": answered,
        "seconds": (record["closed"] or 0) - record["opened"],
    }
