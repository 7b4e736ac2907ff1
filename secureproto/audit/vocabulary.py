"""The words of the log: who, what, how it ended, and what each action must say.

Invariants: an action outside this list cannot be logged; an entry that leaves out what its action must say cannot
be logged; a detail has one of the names here, none of which could hold a tensor, a loss, a count of one site's
records, a record's identifier or a secret (SECURITY.md, Audit log). A new name is added here, on purpose.
"""

from enum import StrEnum


class Role(StrEnum):
    """In which capacity the actor acted."""

    SERVER = "server"
    SITE = "site"
    OPERATOR = "operator"
    PRIVACY_OFFICER = "privacy_officer"
    SECURITY_OFFICER = "security_officer"
    AUDITOR = "auditor"
    UNKNOWN = "unknown"  # a request whose sender could not be told


class Result(StrEnum):
    """How the action ended."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


class ClockSource(StrEnum):
    """What the entry's time rests on."""

    SYSTEM = "system"  # the host's clock, nothing known about it
    SYNCHRONISED = "synchronised"  # the host's clock, and the host says that it is synchronised
    MANUAL = "manual"  # a clock that a test or a replay moves


class Action(StrEnum):
    """What happened."""

    FEDERATION_CREATED = "federation_created"
    SERVER_STARTED = "server_started"
    SERVER_STOPPED = "server_stopped"
    CLOCK_SET_BACK = "clock_set_back"
    CLOCK_JUMPED = "clock_jumped"
    TOKEN_ISSUED = "token_issued"  # noqa: S105 - the name of an event, not a token
    TOKEN_USED = "token_used"  # noqa: S105 - likewise
    SITE_ENROLLED = "site_enrolled"
    SITE_APPROVED = "site_approved"
    SITE_DENIED = "site_denied"
    SITE_SUSPENDED = "site_suspended"
    SITE_RESUMED = "site_resumed"
    SITE_REVOKED = "site_revoked"
    ROOT_PUBLISHED = "root_published"
    CERTIFICATE_ISSUED = "certificate_issued"
    CERTIFICATE_RENEWED = "certificate_renewed"
    ADMIN_REFUSED = "admin_refused"
    STUDY_CREATED = "study_created"
    STUDY_CLOSED = "study_closed"
    ROUND_OPENED = "round_opened"
    ROUND_CLOSED = "round_closed"
    ROUND_ABORTED = "round_aborted"
    ROUND_QUORUM_MISSED = "round_quorum_missed"
    SITE_INVITED = "site_invited"
    SITE_ACCEPTED = "site_accepted"
    SITE_DECLINED = "site_declined"
    UPLOAD_ACCEPTED = "upload_accepted"
    UPLOAD_REJECTED = "upload_rejected"
    MODEL_PUBLISHED = "model_published"
    MODEL_RELEASED = "model_released"
    MODEL_DOWNLOADED = "model_downloaded"


class Detail(StrEnum):
    """Names under which an entry may say more."""

    VERSION = "version"  # of the software
    CONFIGURATION = "configuration"  # digest of the settings
    EPOCH = "epoch"  # of the server
    TOKEN = "token"  # noqa: S105 - its id, never its secret
    KEY = "key"  # a key id
    FINGERPRINT = "fingerprint"  # of a site's three keys
    SERIAL = "serial"  # of a certificate, hex
    EXPIRES = "expires"  # seconds since the epoch
    DEADLINE = "deadline"  # likewise
    SKEW = "skew"  # seconds by which a clock was off
    ROOT_VERSION = "root_version"
    MODEL_VERSION = "model_version"
    BASE_VERSION = "base_version"
    INVITED = "invited"  # number of sites
    QUORUM = "quorum"  # likewise
    UPLOADS = "uploads"  # likewise: uploads taken in a round
    PROTECTION = "protection"  # as the privacy receipt names it
    CIPHERTEXT_LENGTH = "ciphertext_length"
    LEFT_OUT = "left_out"  # refusals of the same site since its last entry, which got none of their own
    REQUEST = "request"  # method and path of an admin request


# What an action must say besides actor, role and result: fields of Event, then details.
_SITE = frozenset({"object"})
_ROUND = frozenset({"study", "round"})
_WHY = frozenset({"reason"})
_WHAT = frozenset({"object", "object_digest"})

NEEDS: dict[Action, frozenset[str]] = {
    Action.FEDERATION_CREATED: _WHAT,
    Action.SERVER_STARTED: frozenset({Detail.VERSION, Detail.CONFIGURATION}),
    Action.SERVER_STOPPED: frozenset(),
    Action.CLOCK_SET_BACK: frozenset({Detail.SKEW}),
    Action.CLOCK_JUMPED: frozenset({Detail.SKEW}),
    Action.TOKEN_ISSUED: _SITE | {Detail.TOKEN},
    Action.TOKEN_USED: _SITE | {Detail.TOKEN},
    Action.SITE_ENROLLED: _WHAT,
    Action.SITE_APPROVED: _WHAT,
    Action.SITE_DENIED: _SITE | _WHY,
    Action.SITE_SUSPENDED: _SITE | _WHY,
    Action.SITE_RESUMED: _SITE | _WHY,
    Action.SITE_REVOKED: _SITE | _WHY,
    Action.ROOT_PUBLISHED: frozenset({"after", Detail.ROOT_VERSION}),
    Action.CERTIFICATE_ISSUED: _WHAT,
    Action.CERTIFICATE_RENEWED: _WHAT,
    Action.ADMIN_REFUSED: _WHY,
    Action.STUDY_CREATED: frozenset({"study", "object_digest"}),
    Action.STUDY_CLOSED: frozenset({"study"}) | _WHY,
    Action.ROUND_OPENED: _ROUND | {"policy_digest"},
    Action.ROUND_CLOSED: _ROUND,
    Action.ROUND_ABORTED: _ROUND | _WHY,
    Action.ROUND_QUORUM_MISSED: _ROUND,
    Action.SITE_INVITED: _ROUND | _SITE,
    Action.SITE_ACCEPTED: _ROUND,  # the actor is the site
    Action.SITE_DECLINED: _ROUND | _WHY,
    Action.UPLOAD_ACCEPTED: _ROUND | {"object_digest", "policy_digest"},
    Action.UPLOAD_REJECTED: _WHY,
    Action.MODEL_PUBLISHED: frozenset({"study", "object_digest", Detail.MODEL_VERSION}),
    Action.MODEL_RELEASED: _WHAT | {"study", Detail.MODEL_VERSION},
    Action.MODEL_DOWNLOADED: frozenset({"study", "object_digest", Detail.MODEL_VERSION}),
}

REFUSALS = frozenset({Action.ADMIN_REFUSED, Action.UPLOAD_REJECTED, Action.SITE_DENIED})
"""Actions whose result can only be `refused`."""
