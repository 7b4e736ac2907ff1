"""Replies of the server as errors."""

import pytest

from secureproto.errors import (
    Conflict,
    IntegrityBroken,
    NotFound,
    PolicyDenied,
    Rejected,
    Unavailable,
)
from secureproto.wire.reasons import Reason
from secureproto_client import problems
from secureproto_client.transport.seam import Reply
from support.site_peer import problem


@pytest.mark.parametrize(
    ("name", "code", "family"),
    [
        ("closed", 409, Rejected),
        ("quota", 507, Unavailable),
        ("too_slow", 408, Unavailable),
        ("not_found", 404, NotFound),
        ("conflict", 409, Conflict),
        ("policy_denied", 403, PolicyDenied),
        ("unavailable", 503, Unavailable),
        ("integrity_broken", 500, IntegrityBroken),
        ("error", 500, Unavailable),
        ("something_new", 400, Conflict),
    ],
)
def test_a_problem_becomes_the_error_of_its_family(name: str, code: int, family: type[Exception]) -> None:
    with pytest.raises(family) as caught:
        problems.demand(problem(name, code, "words"), 200)
    assert "the server says: words" in str(caught.value)
    if isinstance(caught.value, Rejected):
        assert caught.value.reason is Reason.CLOSED


def test_what_is_no_problem_document_is_not_our_server() -> None:
    with pytest.raises(Unavailable, match="HTTP status 404 without a problem document"):
        problems.demand(Reply(404, b"<html>secret portal"), 200)
