"""Texts of schemes: read, written back, refused with one line."""

import pytest

from secureproto.errors import Misconfigured
from secureproto.simulation.partition.spec import is_file, parse, schemes

TEXTS = ["natural", "iid", "dirichlet:0.3", "pathological:2", "fedpac:20:3", "feature-shift", "quantity:0.5"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_and_written_back(text: str) -> None:
    assert parse(text).text == text


@pytest.mark.parametrize(
    ("written", "text"),
    [("dirichlet:1.0", "dirichlet:1"), ("dirichlet:1e-3", "dirichlet:0.001"), ("fedpac:020:3", "fedpac:20:3")],
)
def test_one_scheme_has_one_text(written: str, text: str) -> None:
    assert parse(written).text == text
    assert parse(written) == parse(text)


def test_all_schemes_are_listed_in_their_form() -> None:
    listed = schemes()
    assert [each.name for each in listed] == [text.partition(":")[0] for text in TEXTS]
    assert [each.form for each in listed][2:5] == ["dirichlet:ALPHA", "pathological:K", "fedpac:S:K"]
    assert all(each.summary for each in listed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dirichlt:0.3", "did you mean dirichlet?"),
        ("Dirichlet:0.3", "did you mean dirichlet?"),
        ("zzz", "one of natural, iid, dirichlet:ALPHA"),
        ("", "'' is no scheme"),
        ("dirichlet", "written dirichlet:ALPHA, not with 0 parameters"),
        ("iid:3", "written iid, not with 1 parameter"),
        ("fedpac:20", "S is a whole number from 0 to 100; K is a whole number of at least 1"),
        ("dirichlet:", "ALPHA is ''; allowed: a number from 0.0001 to 10000"),
        ("dirichlet:nan", "allowed: a number from 0.0001 to 10000"),
        ("dirichlet:inf", "allowed: a number from 0.0001 to 10000"),
        ("dirichlet:-1", "ALPHA is '-1'"),
        ("dirichlet:0.00009", "ALPHA is"),
        ("quantity:1_0", "ALPHA is '1_0'"),
        ("quantity:20000", "ALPHA is '20000'"),
        ("pathological:0", "K is '0'; allowed: a whole number of at least 1"),
        ("pathological:2.5", "K is '2.5'"),
        ("pathological: 2", "K is ' 2'"),
        ("fedpac:101:3", "S is '101'; allowed: a whole number from 0 to 100"),
    ],
)
def test_a_bad_text_is_refused_with_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        parse(text)
    assert words in f"{caught.value.message} | {caught.value.hint}"
    assert "\n" not in caught.value.message


def test_a_saved_partition_is_told_from_a_scheme() -> None:
    assert is_file("out/partition.json")
    assert not any(is_file(text) for text in TEXTS)
