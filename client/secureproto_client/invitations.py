"""Judging an invitation before anything is computed for it. Pure: what is checked against is passed in.

The invitation came in a poll reply whose server signature was verified. Then, in this order:
    1  it is for this site, of this federation, and not of an older epoch than the site has seen
    2  it is for the study that the site pinned: file, model schema, and policy (until there are policies, the study)
    3  the sealed body it expects has the length of that schema, and goes to a key that the root document names
    4  it was not opened in the future, and its deadline is ahead
    5  it starts from the version that the site has
"""

from dataclasses import dataclass
from enum import StrEnum

from secureproto.errors import IntegrityBroken
from secureproto.wire.layouts import upload_schema
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import Invitation, StudyDescriptor


class Standing(StrEnum):
    """Whether the site can act on an invitation now."""

    READY = "ready"
    LATE = "late"  # its deadline has passed: let it go
    AHEAD = "ahead"  # it starts from a version that has yet to be fetched


@dataclass(frozen=True)
class Expected:
    """What the site knows when an invitation comes. `latest`: the newest version it has; -1: none."""

    federation: str
    site: str
    epoch: int
    now: int
    latest: int
    recipient_key: str


def judge(invitation: Invitation, study: StudyDescriptor, expected: Expected) -> Standing:
    """Checks 1 to 5.

    Raises:
        IntegrityBroken: a signed invitation that contradicts what the site pinned.
    """
    addressed = (invitation.federation, invitation.site)
    if addressed != (expected.federation, expected.site):
        raise _broken(invitation, "is for another site or federation")
    if invitation.epoch < expected.epoch:
        raise _broken(invitation, f"is of epoch {invitation.epoch}, this site has seen {expected.epoch}")
    digests = (invitation.study_digest, invitation.schema_digest, invitation.policy_digest)
    if digests != (study.study_digest, study.schema_digest, study.study_digest):
        raise _broken(invitation, "is for another study file, model or policy than this site accepted")
    if invitation.plaintext_length != upload_schema(study.model).plaintext_length:
        raise _broken(invitation, "expects a body of another length than the study's model has")
    if invitation.recipient_key != expected.recipient_key:
        raise _broken(invitation, "wants the update sealed to a key that the root document does not name")
    if invitation.opened > expected.now + LIMITS.clock_skew:
        raise _broken(invitation, "was opened in the future")
    if invitation.deadline <= expected.now:
        return Standing.LATE
    if invitation.base_version > expected.latest:
        return Standing.AHEAD
    if invitation.base_version < expected.latest:
        raise _broken(invitation, f"starts from version {invitation.base_version}, older than {expected.latest}")
    return Standing.READY


def _broken(invitation: Invitation, what: str) -> IntegrityBroken:
    return IntegrityBroken(
        f"the invitation to round {invitation.round} of {invitation.study} {what}",
        hint="nothing was sent: ask the operator what happened",
    )
