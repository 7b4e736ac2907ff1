"""Published versions: how they lie in the store, and what one site gets of them.

Invariants: a version is published whole, in one transaction with its audit entry, after every body of it is durable;
its shared part is sealed once; a site's head is sealed apart and handed to that site only. A site without a head of
a version (it enrolled later) gets the mean of the heads, sealed anew under its own name.
"""

from collections.abc import Iterable
from hashlib import sha256

from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Detail, Role
from secureproto.clock import seconds
from secureproto.crypto.keys import PublicKey
from secureproto.errors import NotFound
from secureproto.wire.messages import BroadcastCore, Release, StudyDescriptor
from secureproto.wire.tensors import TensorSchema
from secureproto_server import studies, vault
from secureproto_server.services import Services
from secureproto_server.storage.records import Head, Published, Site, Study, StudyState
from secureproto_server.storage.store import Transaction

MEAN = ""  # the site of the head that late joiners start with


def shared_name(study: str, version: int) -> str:
    """The blob of a version's shared part."""
    return f"shared.{study}.{version}"


def head_name(study: str, version: int, site: str) -> str:
    """The blob of a site's head, or of the mean of the heads."""
    return f"head.{study}.{version}.{site}" if site else f"mean.{study}.{version}"


def core(
    services: Services, descriptor: StudyDescriptor, schema: TensorSchema, *, version: int, site: str | None = None
) -> BroadcastCore:
    """The core of a part: the shared one, or the head of `site` (MEAN: of nobody yet)."""
    return BroadcastCore(
        federation=services.federation,
        epoch=services.epoch,
        study=descriptor.study,
        study_digest=descriptor.study_digest,
        schema_digest=descriptor.schema_digest,
        version=version,
        part="shared" if site is None else "head",
        site=site or "",
        plaintext_length=schema.plaintext_length,
    )


def seal_shared(
    services: Services, plan: studies.Plan, chunks: Iterable[vault.Chunk], *, version: int, round_: int | None
) -> Published:
    """Make the shared part of a version durable; returns its row, not yet written."""
    study = plan.descriptor.study
    name = shared_name(study, version)
    digest = sha256()
    manifest = vault.seal(
        services,
        name,
        core(services, plan.descriptor, plan.shared_schema, version=version),
        vault.watched(chunks, digest.update),
    )
    return Published(study, version, round_, name, digest.hexdigest(), manifest)


def seal_head(
    services: Services, plan: studies.Plan, chunks: Iterable[vault.Chunk], *, version: int, site: str
) -> Head:
    """Make a head durable; returns its row, not yet written."""
    study = plan.descriptor.study
    name = head_name(study, version, site)
    part = core(services, plan.descriptor, plan.head_schema, version=version, site=site)
    return Head(study, site, version, name, vault.seal(services, name, part, chunks))


def write(services: Services, tx: Transaction, study: Study, published: Published, heads: Iterable[Head]) -> None:
    """Publish: rows and audit entry, in the caller's transaction. `study` is the row as it then is."""
    tx.put(published)
    for head in heads:
        tx.put(head)
    tx.put(study)
    event = Event(
        actor="server",
        role=Role.SERVER,
        action=Action.MODEL_PUBLISHED,
        object=study.study,
        object_digest=published.digest,
        study=study.study,
        round=-1 if published.round is None else published.round,
        details={Detail.MODEL_VERSION: published.version},
    )
    services.log.append(tx, event)


def release(services: Services, site: Site, study: Study) -> Release:
    """The newest version for one site; makes the head of a late joiner on the way.

    Raises:
        NotFound: the study has no version.
    """
    plan = studies.PLANS.of(study)
    head = ensure_head(services, site, study)
    with services.store.transaction("read release") as tx:
        published = require_published(tx, study.study, study.version)
    key = PublicKey.from_b64(site.hpke_key)
    return Release(
        federation=services.federation,
        epoch=services.epoch,
        site=site.site,
        study=study.study,
        study_digest=plan.descriptor.study_digest,
        version=study.version,
        round=-1 if published.round is None else published.round,
        final=study.state in (StudyState.COMPLETED, StudyState.CLOSED),
        shared=vault.reference(services, published.manifest, key),
        head=vault.reference(services, head.manifest, key),
        issued=seconds(services.clock),
    )


def ensure_head(services: Services, site: Site, study: Study) -> Head:
    """The site's head of the newest version; for a late joiner, the mean of the heads under its name."""
    with services.publishing:  # one at a time: two bodies of one name would overwrite each other
        with services.store.transaction("read head") as tx:
            found = tx.get(Head, study.study, site.site, study.version)
            if found is not None:
                return found
            mean = require_head(tx, study.study, MEAN, study.version)
        plan = studies.PLANS.of(study)
        chunks = vault.open_chunks(services, mean.blob, mean.manifest)
        head = seal_head(services, plan, chunks, version=study.version, site=site.site)
        with services.store.transaction("give late joiner a head") as tx:
            tx.insert(head)
        return head


def require_published(tx: Transaction, study: str, version: int) -> Published:
    """A version's row. Raises NotFound."""
    row = tx.get(Published, study, version)
    if row is None:
        raise NotFound(f"study {study} has no version {version}")
    return row


def require_head(tx: Transaction, study: str, site: str, version: int) -> Head:
    """A head's row. Raises NotFound."""
    row = tx.get(Head, study, site, version)
    if row is None:
        raise NotFound(f"study {study} has no head of {site} in version {version}")
    return row
