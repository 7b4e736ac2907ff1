"""What the system tests cannot easily meet: a full disk, an exclusion between two steps, a broken store."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from secureproto.crypto.envelope import verify
from secureproto.errors import IntegrityBroken, Rejected, Unavailable
from secureproto.wire.messages import UploadReceipt
from secureproto_server import admission, aggregate, coordinator, rounds, views
from secureproto_server.phases import Phase
from secureproto_server.storage.directory_blobs import DirectoryBlobs
from secureproto_server.storage.memory_blobs import MemoryBlobs
from support.parts import parts_in
from support.rounds import expected
from support.sending import admit, begun, deliver, sealed, send
from support.sim_study import SimStudy


class Disk:
    """A disk that a test fills."""

    full = False

    def write(self, file: int, data: memoryview) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, data)


def test_a_full_disk_refuses_the_upload_and_the_round_survives(tmp_path: Path) -> None:
    disk = Disk()
    parts = parts_in(tmp_path, blobs=DirectoryBlobs(tmp_path / "state", write=disk.write))
    study, members = begun(parts, tmp_path, "alpha")
    invitation, upload = sealed(parts, members["alpha"], study, study.update(1))
    admitted = admit(parts, members["alpha"], invitation, upload)
    disk.full = True
    with pytest.raises(Unavailable, match="disk is full"):
        deliver(parts, admitted, upload)
    assert list((tmp_path / "state/spool").iterdir()) == []
    disk.full = False
    coordinator.step(parts.services, "small")
    assert views.round_(parts.services, "small", 0)["phase"] == Phase.COLLECT
    receipt = deliver(parts, admit(parts, members["alpha"], invitation, upload), upload)
    verify(receipt, UploadReceipt, members["alpha"].site.server)


def test_a_full_disk_while_aggregating_is_tried_again(tmp_path: Path) -> None:
    disk = Disk()
    parts = parts_in(tmp_path, blobs=DirectoryBlobs(tmp_path / "state", write=disk.write))
    study, members = begun(parts, tmp_path, "alpha", "beta")
    updates = {name: send(parts, member, study, seed) for seed, (name, member) in enumerate(members.items())}
    disk.full = True
    assert not coordinator.step_all(parts.services)
    assert views.round_(parts.services, "small", 0)["phase"] == Phase.AGGREGATE
    disk.full = False
    assert coordinator.step_all(parts.services)
    assert views.round_(parts.services, "small", 0)["phase"] == Phase.COMPLETED
    assert parts.poll(members["alpha"]).releases[0].version == 1
    assert expected(study, updates).heads.keys() == members.keys()


def test_a_site_suspended_between_body_and_receipt_gets_none(tmp_path: Path) -> None:
    parts = parts_in(tmp_path)
    study, members = begun(parts, tmp_path, "alpha")
    invitation, upload = sealed(parts, members["alpha"], study, study.update(1))
    admitted = admit(parts, members["alpha"], invitation, upload)
    admission.set_state(parts.services, parts.person, site="alpha", verb="suspend", reason="x")
    with pytest.raises(Rejected) as caught:
        deliver(parts, admitted, upload)
    assert caught.value.reason == "suspended"
    assert views.round_(parts.services, "small", 0)["submitted"] == []


def test_a_site_suspended_while_aggregating_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_in(tmp_path)
    study, members = begun(parts, tmp_path, "alpha", "beta")
    for seed, member in enumerate(members.values()):
        send(parts, member, study, seed)
    history = aggregate._history

    def meanwhile(*arguments: object) -> object:
        if views.sites(parts.services)[0]["state"] == "active":
            admission.set_state(parts.services, parts.person, site="alpha", verb="suspend", reason="x")
        return history(*arguments)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(aggregate, "_history", meanwhile)
    coordinator.step(parts.services, "small")
    record = views.round_(parts.services, "small", 0)
    assert (record["phase"], record["submitted"], record["dropped"]) == (Phase.COMPLETED, ["beta"], ["alpha"])


def test_a_stored_upload_that_was_altered_is_left_out_and_logged(tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    parts = parts_in(tmp_path, blobs=blobs)
    study, members = begun(parts, tmp_path, "alpha", "beta")
    for seed, member in enumerate(members.values()):
        send(parts, member, study, seed)
    name = "upload.small.0.alpha"
    blobs.blobs[name] = blobs.blobs[name][:-1] + bytes([blobs.blobs[name][-1] ^ 1])
    coordinator.step(parts.services, "small")
    record = views.round_(parts.services, "small", 0)
    assert (record["phase"], record["details"]) == (Phase.COMPLETED, {"alpha": "decrypt_failed"})


def test_a_base_version_that_was_altered_stops_its_study_alone(tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    parts = parts_in(tmp_path, blobs=blobs)
    study, members = begun(parts, tmp_path, "alpha")
    other = parts.create(SimStudy(name="other", quorum=1))
    send(parts, members["alpha"], study, 1)
    name = "shared.small.0"
    blobs.blobs[name] = blobs.blobs[name][:-1] + bytes([blobs.blobs[name][-1] ^ 1])
    with pytest.raises(IntegrityBroken, match=name):
        coordinator.step(parts.services, "small")
    rounds.want(parts.services, parts.person, study=other.name, rounds=1)
    assert not coordinator.step_all(parts.services)
    assert views.round_(parts.services, "other", 0)["phase"] == Phase.COLLECT


def test_a_round_in_which_nobody_holds_a_record_ends(tmp_path: Path) -> None:
    parts = parts_in(tmp_path)
    study, members = begun(parts, tmp_path, "alpha")
    arrays = study.update(1)
    arrays["prototypes"] = np.zeros_like(arrays["prototypes"])
    invitation, upload = sealed(parts, members["alpha"], study, arrays)
    deliver(parts, admit(parts, members["alpha"], invitation, upload), upload)
    coordinator.step(parts.services, "small")
    assert views.round_(parts.services, "small", 0)["phase"] == Phase.ABORTED


def test_a_begun_upload_may_finish_within_the_grace_and_not_after(tmp_path: Path) -> None:
    parts = parts_in(tmp_path)
    members = {name: parts.enrol(name, tmp_path) for name in ("alpha", "beta", "gamma")}
    study = parts.create(SimStudy(quorum=1, deadline="60s", grace="30s"))
    rounds.want(parts.services, parts.person, study="small", rounds=1)
    uploads = {name: sealed(parts, member, study, study.update(1)) for name, member in members.items()}
    admitted = {name: admit(parts, members[name], *uploads[name]) for name in ("alpha", "beta")}
    parts.clock.advance(61)
    coordinator.step(parts.services, "small")
    with pytest.raises(Rejected) as caught:
        admit(parts, members["gamma"], *uploads["gamma"])
    assert caught.value.reason in ("closed", "stale")
    deliver(parts, admitted["alpha"], uploads["alpha"][1])
    parts.clock.advance(30)
    with pytest.raises(Rejected) as caught:
        deliver(parts, admitted["beta"], uploads["beta"][1])
    assert caught.value.reason == "closed"
    coordinator.step(parts.services, "small")
    assert views.round_(parts.services, "small", 0)["submitted"] == ["alpha"]
