from pathlib import Path

from secureproto_server import coordinator, rounds, sweeper, views
from secureproto_server.storage.memory_blobs import MemoryBlobs
from secureproto_server.storage.records import Nonce, Token, TokenState, Upload
from support.parts import parts_in
from support.sending import begun, send
from support.sim_study import SimStudy


def test_nonces_and_tokens_expire_and_used_tokens_stay(tmp_path: Path) -> None:
    parts = parts_in(tmp_path)
    parts.enrol("alpha", tmp_path)
    unused = parts.invite("beta")
    now = int(parts.clock.now())
    with parts.services.store.transaction("test") as tx:
        tx.insert(Nonce("old", now + 10))
        tx.insert(Nonce("new", now + 10_000))
    parts.clock.advance(3700)
    sweeper.sweep(parts.services)
    with parts.services.store.transaction("look") as tx:
        assert [row.nonce for row in tx.select(Nonce)] == ["new"]
        voided = tx.get(Token, unused.token)
        assert voided is not None
        assert voided.state is TokenState.VOID
        assert len(tx.select(Token, state=TokenState.USED)) == 1


def test_orphans_go_and_what_a_row_names_stays(tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    parts = parts_in(tmp_path, blobs=blobs)
    member = parts.enrol("alpha", tmp_path)
    study = parts.create(SimStudy(quorum=1))
    parts.poll(member)
    named = set(blobs.blobs)
    assert named == {"shared.small.0", "mean.small.0", "head.small.0.alpha"}
    for name in ("orphan", "shared.small.1"):
        with blobs.spool(name) as spool:
            spool.write(0, b"x")
            spool.finish()
    with blobs.spool("half") as spool:
        spool.write(0, b"x")
    sweeper.sweep(parts.services)
    assert set(blobs.blobs) == named
    assert not blobs.spools
    assert study.name == "small"


def test_uploads_go_when_their_round_has_ended_and_their_rows_stay(tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    parts = parts_in(tmp_path, blobs=blobs)
    study, members = begun(parts, tmp_path, "alpha")
    send(parts, members["alpha"], study, 1)
    sweeper.sweep(parts.services)
    assert "upload.small.0.alpha" in blobs.blobs
    coordinator.step(parts.services, "small")
    sweeper.sweep(parts.services)
    assert "upload.small.0.alpha" not in blobs.blobs
    with parts.services.store.transaction("look") as tx:
        assert [row.sender for row in tx.select(Upload)] == ["alpha"]


def test_nothing_is_swept_of_an_open_round(tmp_path: Path) -> None:
    parts = parts_in(tmp_path)
    parts.enrol("alpha", tmp_path)
    parts.create(SimStudy(quorum=1))
    rounds.want(parts.services, parts.person, study="small", rounds=1)
    sweeper.sweep(parts.services)
    assert views.round_(parts.services, "small", 0)["phase"] == "collect"
    with parts.services.store.transaction("look") as tx:
        assert tx.select(Upload) == []
