"""Checkpoints: the exact text, who is believed, every form that is refused (C2SP tlog-checkpoint, signed-note)."""

from base64 import b64encode

import pytest

from secureproto.audit.checkpoint import (
    LABEL,
    MAX_NOTE_BYTES,
    Checkpoint,
    note_key_id,
    origin_of,
    parse_note,
    sign,
    verify,
)
from secureproto.errors import IntegrityBroken
from support.audit_encoder import Key, signed
from support.audit_logs import KEYS, OPERATOR, ORIGIN, SERVER

ROOT = bytes(range(32))
HEAD = Checkpoint(ORIGIN, 7, ROOT)
TEXT = sign(HEAD, SERVER)
INDEPENDENT = Key(0x5EED)  # the same key as SERVER, in a second implementation
BODY = HEAD.body()

# The example of c2sp.org/tlog-checkpoint, as published: Ed25519, so no key of ours could have signed it.
PUBLISHED = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
)


def test_what_is_signed_is_what_is_read() -> None:
    assert verify(TEXT, ORIGIN, keys=KEYS) == HEAD


def test_the_text() -> None:
    first, second, third, empty, line, end = TEXT.split("\n")
    assert (first, second, third) == (ORIGIN, "7", b64encode(ROOT).decode())
    assert (empty, end) == ("", "")
    assert line.startswith(f"— {ORIGIN} ")
    assert origin_of("heart") == ORIGIN == "secureproto/v1/audit/heart"


def test_a_second_implementation_signs_the_same_thing() -> None:
    assert verify(signed(INDEPENDENT, ORIGIN, BODY), ORIGIN, keys=KEYS) == HEAD


def test_the_published_example_parses_and_is_believed_by_nobody() -> None:
    body, signatures = parse_note(PUBLISHED)
    assert body.startswith("example.com/behind-the-sofa\n20852163\n")
    assert body.endswith("jxq2I=\n")
    (line,) = signatures
    assert (line.name, len(line.key_id), len(line.signature)) == ("example.com/behind-the-sofa", 4, 64)
    with pytest.raises(IntegrityBroken, match="not signed by a key"):
        verify(PUBLISHED, "example.com/behind-the-sofa", keys=KEYS)


def test_the_body_may_hold_empty_lines_in_a_note_but_not_in_a_checkpoint() -> None:
    text = "a\n\nb\n\n— name " + b64encode(b"12345").decode() + "\n"
    assert parse_note(text)[0] == "a\n\nb\n"
    with pytest.raises(IntegrityBroken, match="decimal"):
        verify(text, "a", keys=KEYS)


def test_lines_of_other_keys_are_kept_and_prove_nothing() -> None:
    witness = f"— site/cleveland {b64encode(b'1234' + b'whatever').decode()}\n"
    assert verify(TEXT + witness, ORIGIN, keys=KEYS) == HEAD
    assert [line.name for line in parse_note(TEXT + witness)[1]] == [ORIGIN, "site/cleveland"]
    with pytest.raises(IntegrityBroken, match="not signed by a key"):
        verify(f"{BODY}\n{witness}", ORIGIN, keys=KEYS)


def test_the_logs_key_under_another_name_is_another_key() -> None:
    with pytest.raises(IntegrityBroken, match="not signed by a key"):
        verify(f"{BODY}\n{INDEPENDENT.line('site/cleveland', BODY)}", ORIGIN, keys=KEYS)


def test_one_bad_line_of_a_known_key_spoils_the_note() -> None:
    with pytest.raises(IntegrityBroken, match="does not verify"):
        verify(TEXT + INDEPENDENT.line(ORIGIN, BODY.replace("7", "8")), ORIGIN, keys=KEYS)


def test_either_of_two_keys_in_a_rotation_will_do() -> None:
    keys = KEYS | {OPERATOR.public.key_id: OPERATOR.public}
    assert verify(sign(HEAD, OPERATOR), ORIGIN, keys=keys) == HEAD
    assert verify(TEXT, ORIGIN, keys=keys) == HEAD


def test_a_key_whose_note_id_collides_is_refused_by_its_signature() -> None:
    forged = note_key_id(ORIGIN, SERVER.public) + OPERATOR.sign(LABEL, BODY.encode())
    with pytest.raises(IntegrityBroken, match="does not verify"):
        verify(f"{BODY}\n— {ORIGIN} {b64encode(forged).decode()}\n", ORIGIN, keys=KEYS)


def test_no_keys_no_belief() -> None:
    with pytest.raises(IntegrityBroken, match="not signed by a key"):
        verify(TEXT, ORIGIN, keys={})


def test_another_log() -> None:
    with pytest.raises(IntegrityBroken, match="not of 'secureproto/v1/audit/other'"):
        verify(TEXT, origin_of("other"), keys=KEYS)


ROOT_TEXT = b64encode(ROOT).decode()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (f"{ORIGIN}\n07\n{ROOT_TEXT}\n", "decimal"),
        (f"{ORIGIN}\n+7\n{ROOT_TEXT}\n", "decimal"),
        (f"{ORIGIN}\n-7\n{ROOT_TEXT}\n", "decimal"),
        (f"{ORIGIN}\n７\n{ROOT_TEXT}\n", "decimal"),
        (f"{ORIGIN}\n7 \n{ROOT_TEXT}\n", "decimal"),
        (f"{ORIGIN}\n10000000000000\n{ROOT_TEXT}\n", "decimal"),
        (f"{ORIGIN}\n7\n{ROOT_TEXT[:-1]}\n", "base64"),
        (f"{ORIGIN}\n7\n{ROOT_TEXT[:-2]}9=\n", "base64"),  # unused bits set
        (f"{ORIGIN}\n7\n {ROOT_TEXT}\n", "base64"),
        (f"{ORIGIN}\n7\n{b64encode(ROOT[:31]).decode()}\n", "32 bytes"),
        (f"{ORIGIN}\n7\n{ROOT_TEXT}\nextension\n", "three lines"),
        (f"{ORIGIN}\n7\n", "three lines"),
        (f"\n7\n{ROOT_TEXT}\n", "three lines"),
        (f"{ORIGIN}\n7\r\n{ROOT_TEXT}\n", "not a text"),
        (f"{ORIGIN}\t\n7\n{ROOT_TEXT}\n", "not a text"),
    ],
)
def test_a_body_in_another_form_is_refused_though_it_is_signed(body: str, says: str) -> None:
    with pytest.raises(IntegrityBroken, match=says):
        verify(signed(INDEPENDENT, ORIGIN, body), ORIGIN, keys=KEYS)


LINE = TEXT.split("\n\n")[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a text"),
        (BODY, "not a text"),
        (BODY + "\n", "not a text"),  # no signature line
        (TEXT[:-1], "not a text"),
        (TEXT + "\n", "not a text"),
        (TEXT + "x\n", "em dash"),
        ("\n\n" + LINE, "not a text"),
        (f"{BODY}\n{LINE.replace('—', '-')}", "em dash"),
        (f"{BODY}\n{LINE.replace('— ', '—')}", "em dash"),
        (f"{BODY}\n— a+b {ROOT_TEXT}\n", "em dash"),
        (f"{BODY}\n— a\u00a0b {ROOT_TEXT}\n", "em dash"),
        (f"{BODY}\n—  {ROOT_TEXT}\n", "em dash"),
        (f"{BODY}\n— name\n", "base64"),
        (f"{BODY}\n— name AAAA\n", "too short"),
        (f"{BODY}\n— name AAAAAA==\n", "too short"),  # a key id, and no signature
        (f"{BODY}\n— name !!!!\n", "base64"),
        (TEXT + "— name " + "A" * MAX_NOTE_BYTES + "\n", "over 65536 bytes"),
    ],
)
def test_a_note_in_another_form_is_refused(text: str, says: str) -> None:
    with pytest.raises(IntegrityBroken, match=says):
        verify(text, ORIGIN, keys=KEYS)


def test_at_least_sixteen_signature_lines_are_taken() -> None:
    others = "".join(f"— witness/{i} {b64encode(bytes(76)).decode()}\n" for i in range(300))
    assert verify(TEXT + others, ORIGIN, keys=KEYS) == HEAD


def test_the_largest_size() -> None:
    head = Checkpoint(ORIGIN, 2**40, ROOT)
    assert verify(sign(head, SERVER), ORIGIN, keys=KEYS) == head
