"""Taking in a study: the operator's signed descriptor and initial weights, which become version 0; closing it.

The body of the request is LP(descriptor envelope) ‖ LP(shared plaintext) ‖ LP(head plaintext), lengths of 8 bytes.
Initial weights are nobody's data; they are sealed like every version, so that there is one way to fetch a model.
"""

from dataclasses import replace

from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Role
from secureproto.clock import seconds
from secureproto.crypto.envelope import verify
from secureproto.errors import Conflict, Rejected
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import Person, StudyDescriptor
from secureproto.wire.reasons import Reason
from secureproto_server import releases, roots, rounds, studies
from secureproto_server.services import Services
from secureproto_server.storage.records import Study, StudyState

MAX_BODY = 8 * 2**30  # descriptor and initial weights; what an operator's desk can send, not a peer
LENGTH = 8  # bytes before each part


def parts(*values: bytes) -> bytes:
    """The request's body."""
    return b"".join(len(value).to_bytes(LENGTH, "big") + value for value in values)


def split(body: bytes) -> tuple[bytes, bytes, bytes]:
    """Descriptor envelope, shared part, head. Raises Rejected(MALFORMED)."""
    found: list[bytes] = []
    while body and len(found) < 3:
        end = LENGTH + int.from_bytes(body[:LENGTH], "big")
        if len(body) < end:
            break
        found.append(body[LENGTH:end])
        body = body[end:]
    if len(found) != 3 or body or len(found[0]) > LIMITS.descriptor:
        raise Rejected(Reason.MALFORMED, "the study's parts do not add up")
    return found[0], found[1], found[2]


def create(services: Services, person: Person, body: bytes) -> Study:
    """A new study with its version 0. The same descriptor again changes nothing.

    Raises:
        Rejected, Misconfigured: the descriptor, the file or the weights do not pass (`studies.check`).
        Conflict: there is another study of that name.
    """
    envelope, shared, head = split(body)
    with services.store.transaction("read root") as tx:
        keys = roots.people_keys(roots.in_force(tx), role="operator")  # as the sites will demand
    descriptor = verify(envelope, StudyDescriptor, keys)
    if descriptor.federation != services.federation:
        raise Rejected(Reason.WRONG_FEDERATION, "the study is for another federation")
    plan = studies.check(descriptor, shared=shared, head=head)
    now = seconds(services.clock)
    row = Study(descriptor.study, descriptor.study_digest, envelope, StudyState.OPEN, 0, 0, 0, now)
    with services.publishing:
        with services.store.transaction("look for study") as tx:
            known = tx.get(Study, row.study)
        if known is not None:
            return _same(known, plan)
        published = releases.seal_shared(services, plan, [shared], version=0, round_=None)
        mean = releases.seal_head(services, plan, [head], version=0, site=releases.MEAN)
        with services.store.transaction("create study") as tx:
            tx.insert(row)
            created = Event(
                actor=person.name,
                role=Role(person.role),
                action=Action.STUDY_CREATED,
                object=row.study,
                object_digest=row.digest,
                study=row.study,
            )
            services.log.append(tx, created)
            releases.write(services, tx, row, published, [mean])
    services.tell_sites()
    return row


def close(services: Services, person: Person, *, study: str, reason: str) -> None:
    """No round opens any more; the newest version is the last.

    Raises:
        NotFound: no such study. Conflict: a round is running, or it is closed already.
    """
    with services.store.transaction("close study") as tx:
        row = studies.require(tx, study)
        if row.state in (StudyState.CLOSED, StudyState.COMPLETED):
            raise Conflict(f"study {study} is {row.state} already")
        if rounds.current(tx, study) is not None:
            raise Conflict(f"a round of study {study} is running", hint="wait for its end, or abort it first")
        tx.put(replace(row, state=StudyState.CLOSED, rounds_wanted=0))
        event = Event(
            actor=person.name,
            role=Role(person.role),
            action=Action.STUDY_CLOSED,
            object=study,
            study=study,
            reason=reason,
        )
        services.log.append(tx, event)
    services.tell_sites()


def _same(known: Study, plan: studies.Plan) -> Study:
    """The study that is there, if it is this one: sent again, it may differ in nothing but its time."""
    before = studies.PLANS.of(known).descriptor
    if before.model_copy(update={"created": 0}) != plan.descriptor.model_copy(update={"created": 0}):
        raise Conflict(f"there is a study {known.study} already", hint="a changed study has another name")
    return known
