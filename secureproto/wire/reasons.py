"""The one enum of reasons for which an upload is refused; a reason is also a problem URI (RFC 9457)."""

from enum import StrEnum

PROBLEM_PREFIX = "urn:secureproto:problem:"


class Reason(StrEnum):
    """Why an upload (or another request of a site) was refused; a metric label and a problem URI."""

    MALFORMED = "malformed"
    BAD_SIGNATURE = "bad_signature"
    UNKNOWN_KEY = "unknown_key"
    REVOKED_KEY = "revoked_key"
    SUSPENDED = "suspended"
    WRONG_FEDERATION = "wrong_federation"
    WRONG_ROUND = "wrong_round"
    CLOSED = "closed"
    STALE = "stale"
    REPLAYED = "replayed"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    QUOTA = "quota"
    DECRYPT_FAILED = "decrypt_failed"
    SCHEMA = "schema"
    NON_FINITE = "non_finite"
    NORM_BOUND = "norm_bound"
    POLICY_DIGEST = "policy_digest"
    OVER_BUDGET = "over_budget"
    RECEIPT = "receipt"


# HTTP status of a refusal for each reason; anything not named here is 400.
STATUS: dict[Reason, int] = {
    Reason.BAD_SIGNATURE: 401,
    Reason.UNKNOWN_KEY: 401,
    Reason.REVOKED_KEY: 403,
    Reason.SUSPENDED: 403,
    Reason.WRONG_FEDERATION: 409,
    Reason.WRONG_ROUND: 409,
    Reason.CLOSED: 409,
    Reason.STALE: 409,
    Reason.REPLAYED: 409,
    Reason.POLICY_DIGEST: 409,
    Reason.OVER_BUDGET: 403,
    Reason.TOO_LARGE: 413,
    Reason.TOO_SLOW: 408,
    Reason.QUOTA: 507,
}


def status(reason: Reason) -> int:
    """HTTP status code of a refusal."""
    return STATUS.get(reason, 400)


def problem_type(name: str) -> str:
    """The problem URI of a reason or of an error family."""
    return PROBLEM_PREFIX + name
