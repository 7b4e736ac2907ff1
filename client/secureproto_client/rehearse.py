"""A rehearsal: everything of a round but the upload, so that a site's engineer sees it work before it counts.

The records are read, the model is built and trained from the newest version the site has, the update is sealed as it
would be, and thrown away. Nothing is sent, the journal is not touched, and nothing of it can be sent later.
"""

from dataclasses import dataclass

from secureproto.crypto.sealing import Sealer
from secureproto.errors import NotFound
from secureproto.wire.layouts import upload_schema
from secureproto.wire.limits import LIMITS
from secureproto.wire.tensors import encode
from secureproto_client.models import model_name
from secureproto_client.site import Site
from secureproto_client.studies import Study


@dataclass(frozen=True)
class Rehearsal:
    """What a round would take here. The counts of records are the site's own, and stay here."""

    study: str
    version: int
    training_records: int
    held_out_records: int
    left_out_records: int
    load_seconds: float
    train_seconds: float
    seal_seconds: float
    upload_bytes: int
    max_upload_bytes: int


def rehearse(site: Site, study: Study) -> Rehearsal:
    """Read, train, seal, throw away.

    Raises:
        NotFound: the site has no version to start from yet.
        Misconfigured, PolicyDenied: what would make the site decline.
    """
    latest = site.facts.latest(study.name)
    if latest is None:
        raise NotFound(f"no version of {study.name} is here yet", hint="`client run --once` fetches the newest")
    started = site.clock.monotonic()
    learner = site.learner_of(study)
    counts = learner.count()
    loaded = site.clock.monotonic()
    base = site.models(study.name).load(model_name(latest.version, "received"), study.descriptor.model)
    trained = learner.train(base, latest.round + 1)
    done = site.clock.monotonic()
    sealer = Sealer(b"rehearsal" + bytes(LIMITS.manifest_core - 9), [site.link.trust.recipient])
    for chunk in encode(upload_schema(study.descriptor.model), trained.update):
        sealer.update(chunk)
    sealer.finalize()
    return Rehearsal(
        study=study.name,
        version=latest.version,
        training_records=counts.training,
        held_out_records=counts.held_out,
        left_out_records=counts.left_out,
        load_seconds=loaded - started,
        train_seconds=done - loaded,
        seal_seconds=site.clock.monotonic() - done,
        upload_bytes=sealer.ciphertext_length,
        max_upload_bytes=study.file.bounds.max_upload_bytes,
    )
