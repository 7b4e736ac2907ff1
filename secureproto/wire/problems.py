"""Errors as problem documents (RFC 9457) and back: what one side raises, the other raises again.

Invariants: an error of a family keeps its family, its words and its hint, and a refusal its reason, over the wire;
a refusal that no table names is a Conflict; a document holds one line of text, without control characters.
"""

from http import HTTPStatus

from secureproto.errors import (
    ApprovalNeeded,
    Conflict,
    IntegrityBroken,
    Misconfigured,
    NotFound,
    PolicyDenied,
    Rejected,
    SecureProtoError,
    Unavailable,
)
from secureproto.wire.messages import Problem
from secureproto.wire.reasons import PROBLEM_PREFIX, Reason, problem_type, status

# (family, its word in the URI, HTTP status); the more special family stands first
FAMILIES: tuple[tuple[type[SecureProtoError], str, int], ...] = (
    (NotFound, "not_found", 404),
    (Conflict, "conflict", 409),
    (Unavailable, "unavailable", 503),
    (PolicyDenied, "policy_denied", 403),
    (ApprovalNeeded, "approval_needed", 403),
    (Misconfigured, "misconfigured", 400),  # a study file that does not pass, sent by an operator
    (IntegrityBroken, "integrity_broken", 500),
)
LONGEST = 300  # of a line of text: more is not read by anybody at a terminal


def problem_of(error: SecureProtoError) -> Problem:
    """The problem document of an error."""
    if isinstance(error, Rejected):
        name, code = str(error.reason), status(Reason(error.reason))
    else:
        name, code = next(((name, code) for kind, name, code in FAMILIES if isinstance(error, kind)), ("error", 500))
    return Problem(
        type=problem_type(name),
        title=HTTPStatus(code).phrase,
        status=code,
        detail=_line(error.message),
        hint=_line(error.hint),
    )


def error_of(problem: Problem) -> SecureProtoError:
    """The error that a problem document stands for."""
    name, detail = problem.type.removeprefix(PROBLEM_PREFIX), problem.detail or problem.title
    if name in frozenset(Reason):
        return Rejected(Reason(name), detail, hint=problem.hint)
    # a word of a newer server: a refusal, or its fault
    unknown = Conflict if problem.status < 500 else SecureProtoError
    family = next((kind for kind, word, _ in FAMILIES if word == name), unknown)
    return family(detail, hint=problem.hint)


def _line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)[:LONGEST]
