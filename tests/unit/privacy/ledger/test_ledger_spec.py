"""SPEC.md is checked against the program: its example holds, its tables are complete."""

import re
from pathlib import Path

from secureproto.crypto.keys import PublicKey
from secureproto.privacy.events import Gaussian, SampledGaussian
from secureproto.privacy.ledger import entries
from secureproto.privacy.ledger.charging import SEALED_LABEL, sealed_digest
from secureproto.privacy.ledger.claims import MAX_RELEASES, MAX_TIMES, Claim, Release
from secureproto.privacy.ledger.entries import (
    MAX_ENTRY_BYTES,
    Cause,
    Committed,
    Countersignable,
    Countersigned,
    Declaration,
    Link,
    Origin,
    Reserved,
)
from secureproto.privacy.ledger.state import Phase, State
from secureproto.wire import base64url
from secureproto.wire.limits import LIMITS
from secureproto_client.ledger import schema

SPEC = (Path(entries.__file__).parent / "SPEC.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[list[str]]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", SPEC, re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in found]


def table(head: str) -> dict[str, list[str]]:
    (body,) = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", SPEC, re.MULTILINE)
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in body.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_the_example_is_a_ledger_and_its_countersignature_verifies() -> None:
    (lines,), (digests, signed) = blocks("json"), blocks("text")
    chain = [entries.parse(line.encode()) for line in lines]
    state = State.replay(chain)
    assert [entry.digest() for entry in chain] == digests
    assert state.charged == ((Gaussian(8.5), 1), (SampledGaussian(1.0, 0.02, 50), 1))
    reserved, countersigned, committed = chain[1], chain[2], chain[4]
    assert isinstance(reserved, Reserved)
    assert isinstance(countersigned, Countersigned)
    assert isinstance(committed, Committed)
    assert Countersignable.of(reserved).canonical().decode() == signed[0]
    key = PublicKey.from_b64(signed[1])
    assert key.key_id == countersigned.key
    key.verify(Countersignable.LABEL, signed[0].encode(), base64url.decode(countersigned.signature))
    assert committed.sealed == sealed_digest(b"sealed")
    assert state.reservation(digests[1]).phase is Phase.COMMITTED


def test_every_entry_and_what_it_says_is_in_the_table() -> None:
    every = {*Link.model_fields, "kind"}
    said = {name: row[0].split(", ") for name, row in table("kind").items()}
    assert said == {
        name: [field for field in kind.model_fields if field not in every] for name, kind in entries._KINDS.items()
    }
    assert all(f"`{field}`" in SPEC for field in {*every, *Claim.model_fields})


def test_states_causes_origins_and_mechanisms_are_complete() -> None:
    assert list(table("state")) == [str(phase) for phase in Phase]
    assert list(table("origin")) == [str(origin) for origin in Origin]
    assert all(f"`{cause}`" in SPEC for cause in Cause)
    mechanisms = Release.model_fields["mechanism"].annotation
    assert set(table("mechanism")) == set(getattr(mechanisms, "__args__", ()))


def test_labels_and_bounds_are_the_programs() -> None:
    for label in (SEALED_LABEL, Countersignable.LABEL, Declaration.LABEL):
        assert label in SPEC
    for bound in (
        f"are over {MAX_ENTRY_BYTES}",
        f"At most {MAX_RELEASES} events in a claim and {MAX_TIMES} `times`",
        f"within {LIMITS.clock_skew} s",
        f"0x{schema.APPLICATION_ID:X}, `user_version` {schema.SCHEMA_VERSION}",
    ):
        assert bound in SPEC.replace("`application_id` ", ""), bound
