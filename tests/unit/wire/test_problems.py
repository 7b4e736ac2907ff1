"""Errors cross the wire as problem documents and come out as what they were."""

import pytest

from secureproto import errors
from secureproto.wire.messages import Problem
from secureproto.wire.problems import FAMILIES, error_of, problem_of
from secureproto.wire.reasons import Reason


@pytest.mark.parametrize("family", [kind for kind, _, _ in FAMILIES], ids=lambda kind: kind.__name__)
def test_a_family_comes_back_as_itself(family: type[errors.SecureProtoError]) -> None:
    sent = family("what was wrong", hint="what to do")
    told = error_of(Problem.parse(problem_of(sent).canonical()))
    assert type(told) is family
    assert (told.message, told.hint) == (sent.message, sent.hint)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_refusal_keeps_its_reason(reason: Reason) -> None:
    told = error_of(problem_of(errors.Rejected(reason, "no")))
    assert isinstance(told, errors.Rejected)
    assert told.reason is reason


def test_every_family_that_a_peer_can_meet_is_named() -> None:
    # a budget is a policy's; what some of was done is said by the site's own program alone
    named = {kind for kind, _, _ in FAMILIES} | {errors.Rejected, errors.BudgetExhausted, errors.Partial}
    assert set(_below(errors.SecureProtoError)) == named


def test_what_no_table_names_is_the_root() -> None:
    problem = problem_of(errors.SecureProtoError("odd"))
    assert (problem.status, type(error_of(problem))) == (500, errors.SecureProtoError)


def test_a_document_is_one_line_of_text() -> None:
    detail = problem_of(errors.Conflict("a\r\nb\x1b[2J" + "x" * 1000)).detail
    assert len(detail) == 300
    assert detail.isprintable()


def _below(kind: type[errors.SecureProtoError]) -> list[type[errors.SecureProtoError]]:
    return [each for child in kind.__subclasses__() for each in (child, *_below(child)) if _is_ours(each)]


def _is_ours(kind: type) -> bool:
    return kind.__module__ == "secureproto.errors"
