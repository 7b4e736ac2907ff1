"""Uploads handed straight to `receive`, without a port."""

from pathlib import Path

from secureproto.wire.messages import Invitation
from secureproto_server import receive, rounds
from support.parts import Member, Parts
from support.sim_site import Sealed
from support.sim_study import Arrays, SimStudy


def begun(parts: Parts, directory: Path, *names: str) -> tuple[SimStudy, dict[str, Member]]:
    """A study with an open round for these sites."""
    members = {name: parts.enrol(name, directory) for name in names}
    study = parts.create(SimStudy(quorum=1, total=2))
    rounds.want(parts.services, parts.person, study=study.name, rounds=1)
    return study, members


def sealed(parts: Parts, member: Member, study: SimStudy, arrays: Arrays) -> tuple[Invitation, Sealed]:
    invitation = parts.invitation(member)
    return invitation, member.site.sealed_update(invitation, arrays, study.model)


def admit(parts: Parts, member: Member, invitation: Invitation, upload: Sealed) -> receive.Admitted:
    return receive.accept_manifest(
        parts.services,
        invitation.study,
        invitation.round,
        certificate=member.certificate,
        data=upload.manifest.encode(),
    )


def deliver(parts: Parts, admitted: receive.Admitted, upload: Sealed) -> bytes:
    with parts.services.blobs.spool(admitted.upload.blob) as spool:
        body = receive.Body(parts.services, admitted, spool)
        body.write(spool.length, upload.body[spool.length :])
        return body.finish()


def send(parts: Parts, member: Member, study: SimStudy, seed: int) -> Arrays:
    arrays = study.update(seed)
    invitation, upload = sealed(parts, member, study, arrays)
    deliver(parts, admit(parts, member, invitation, upload), upload)
    return arrays
