"""What the system tests cannot easily meet: a full disk, an exclusion between two steps, a broken store."""

import asyncio
import errno
import os
from pathlib import Path

import numpy as np
import pytest

from secureproto.crypto.envelope import sign, verify
from secureproto.crypto.keys import FileSigner
from secureproto.errors import IntegrityBroken, NotFound, Rejected, Unavailable
from secureproto.wire import layouts, tensors
from secureproto.wire.messages import PollRequest, UploadReceipt
from secureproto_server import admission, aggregate, coordinator, news, receive, rounds, views
from secureproto_server.phases import Phase
from secureproto_server.routes.sites import Sites
from secureproto_server.storage.directory_blobs import DirectoryBlobs
from secureproto_server.storage.memory_blobs import MemoryBlobs
from support.parts import NAME, parts_in
from support.rounds import expected
from support.sending import admit, begun, deliver, sealed, send
from support.sim_site import Keys
from support.sim_study import SimStudy

WRONG = "0" * 64


class Disk:
    """A disk that a test fills."""

    full = False

    def write(self, file: int, data: memoryview) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, data)


def test_of_many_faults_the_first_in_the_order_of_the_checks_is_told(tmp_path: Path) -> None:
    """A manifest with everything wrong; told what it is refused for, one fault is put right at a time."""
    parts = parts_in(tmp_path)
    study, members = begun(parts, tmp_path, "alpha", "beta")
    alpha, invitation = members["alpha"], parts.invitation(members["alpha"])
    plaintext = b"".join(tensors.encode(layouts.upload_schema(study.model), study.update(1)))
    stranger = FileSigner(Keys.make().signing)
    faults = {  # in the order of `receive`
        "sender_key": (stranger.public.key_id, "unknown_key"),
        "connection": (None, "unknown_key"),  # that of beta
        "suspended": (None, "suspended"),
        "signer": (None, "bad_signature"),  # a stranger
        "round": (7, "wrong_round"),
        "federation": ("another", "wrong_federation"),
        "epoch": (2, "wrong_federation"),
        "schema_digest": (WRONG, "schema"),
        "study_digest": (WRONG, "policy_digest"),
        "recipient_key": (WRONG, "unknown_key"),
        "plaintext_length": (len(plaintext) + 1, "schema"),
        "expires": (invitation.deadline + invitation.grace + 1, "stale"),
        "policy_digest": (WRONG, "policy_digest"),
    }
    admission.set_state(parts.services, parts.person, site="alpha", verb="suspend", reason="x")

    def try_with(left: list[str]) -> str:
        changes = {name: faults[name][0] for name in left if faults[name][0] is not None}
        signer = stranger if "signer" in left else None
        manifest = alpha.site.seal(alpha.site.core(invitation, **changes), plaintext, signer=signer).manifest
        certificate = members["beta" if "connection" in left else "alpha"].certificate
        try:
            receive.accept_manifest(parts.services, "small", 0, certificate=certificate, data=manifest.encode())
        except Rejected as error:
            return str(error.reason)
        return ""

    left = list(faults)
    while left:
        assert (left[0], try_with(left)) == (left[0], faults[left[0]][1])
        if left.pop(0) == "suspended":
            admission.set_state(parts.services, parts.person, site="alpha", verb="resume", reason="x")
    assert try_with([]) == ""


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


class Linear(SimStudy):
    """A study that names the linear form, which excludes negative class sums."""

    def file(self) -> bytes:
        return super().file().replace(b'"softmax"\ntemperature = 0.1', b'"row_sum"\nform = "linear"')


def test_a_negative_class_sum_is_refused_where_the_study_names_the_linear_form(tmp_path: Path) -> None:
    parts = parts_in(tmp_path)
    alpha = parts.enrol("alpha", tmp_path)
    for name, kind, reason in (("auto", SimStudy, ""), ("linear", Linear, "schema")):
        study = parts.create(kind(name=name))
        rounds.want(parts.services, parts.person, study=name, rounds=1)
        invitation = next(i for i in parts.poll(alpha).invitations if i.study == name)
        arrays = study.update(1)
        arrays["prototypes"][0, 0] *= -1
        upload = alpha.site.sealed_update(invitation, arrays, study.model)
        admitted = admit(parts, alpha, invitation, upload)
        if not reason:
            deliver(parts, admitted, upload)
            continue
        with pytest.raises(Rejected) as caught:
            deliver(parts, admitted, upload)
        assert caught.value.reason == reason


def test_a_version_is_not_out_before_its_round_is_completed(tmp_path: Path) -> None:
    parts = parts_in(tmp_path)
    study, members = begun(parts, tmp_path, "alpha")
    send(parts, members["alpha"], study, 1)
    assert aggregate.run(parts.services, "small", 0) is Phase.PUBLISH
    sites = Sites(parts.services, asyncio.Event())
    with pytest.raises(NotFound, match="no version 1"):
        sites._published("small", 1)
    with pytest.raises(NotFound, match="no version 1"):
        sites._head("small", "alpha", 1)
    with pytest.raises(NotFound, match="no version 1"):
        views.shared_part(parts.services, "small", 1)
    assert [row["version"] for row in views.models(parts.services, "small")] == [0]
    assert [release.version for release in parts.poll(members["alpha"]).releases] == [0]
    aggregate.complete(parts.services, "small", 0)
    assert sites._published("small", 1) == views.shared_part(parts.services, "small", 1)
    assert sites._head("small", "alpha", 1).version == 1


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


def test_the_same_bytes_over_two_connections_are_one_upload(tmp_path: Path) -> None:
    parts = parts_in(tmp_path)
    study, members = begun(parts, tmp_path, "alpha", "beta")
    invitation, upload = sealed(parts, members["alpha"], study, study.update(1))
    first = admit(parts, members["alpha"], invitation, upload)
    second = receive.resume(
        parts.services, "small", 0, certificate=members["alpha"].certificate, digest=upload.digest
    )
    receipt = deliver(parts, first, upload)
    size = parts.services.log.size(parts.services.store)
    assert deliver(parts, second, upload) == receipt
    assert parts.services.log.size(parts.services.store) == size


@pytest.mark.parametrize("verb", ["suspend", "revoke"])
def test_a_site_cannot_ask_how_another_stands(tmp_path: Path, verb: str) -> None:
    parts = parts_in(tmp_path)
    study, members = begun(parts, tmp_path, "alpha", "beta")
    alpha, beta = members["alpha"], members["beta"]
    _, upload = sealed(parts, beta, study, study.update(1))
    poll = sign(PollRequest(
        federation=NAME, site="beta", now=int(parts.clock.now()), wait=0, root_version=1, known=(), client_version="1"
    ), beta.site.signer)  # fmt: skip

    def answers() -> list[str]:
        said = []
        for ask in (
            lambda: receive.accept_manifest(
                parts.services, "small", 0, certificate=alpha.certificate, data=upload.manifest.encode()
            ),
            lambda: news.authenticate(parts.services, poll, alpha.certificate),
            lambda: news.decline(parts.services, "small", 0, certificate=alpha.certificate, body=poll),
        ):
            with pytest.raises(Rejected) as caught:
                ask()
            said.append(f"{caught.value.reason}: {caught.value.message}")
        return said

    before = answers()
    admission.set_state(parts.services, parts.person, site="beta", verb=verb, reason="test")
    assert answers() == before
