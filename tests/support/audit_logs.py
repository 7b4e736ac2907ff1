"""Small logs, made with the real log and real keys, and what belongs to them."""

from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric import ec

from secureproto.audit import checkpoint as notes
from secureproto.audit.checkpoint import Checkpoint, origin_of
from secureproto.audit.entries import Event
from secureproto.audit.export import Logged, Record, SignedCheckpoint
from secureproto.audit.log import LogHead
from secureproto.audit.vocabulary import Action, ClockSource, Detail, Role
from secureproto.crypto.envelope import sign_threshold
from secureproto.crypto.keys import FileSigner, PublicKey
from secureproto.wire import base64url
from secureproto.wire.messages import Person, RootDocument, ServerKeys

FEDERATION = "heart"
ORIGIN = origin_of(FEDERATION)
START = 1_790_000_000
SERVER = FileSigner(ec.derive_private_key(0x5EED, ec.SECP256R1()))
OPERATOR = FileSigner(ec.derive_private_key(0x0FF1CE, ec.SECP256R1()))
KEYS: dict[str, PublicKey] = {SERVER.public.key_id: SERVER.public}


def started(version: str = "0.1.0") -> Event:
    """The server started."""
    return Event(
        actor="server",
        role=Role.SERVER,
        action=Action.SERVER_STARTED,
        details={Detail.VERSION: version, Detail.CONFIGURATION: "c" * 64},
    )


def upload(number: int) -> Event:
    """A site's upload was taken."""
    return Event(
        actor=f"site-{number}",
        role=Role.SITE,
        action=Action.UPLOAD_ACCEPTED,
        study="trial",
        round=number,
        object_digest=f"{number:064x}",
        policy_digest="d" * 64,
        details={Detail.PROTECTION: "unprotected"},
    )


def events(count: int) -> list[Event]:
    """A server start, then uploads."""
    return [started(), *(upload(i) for i in range(1, count))][:count]


def sealed(head: LogHead) -> SignedCheckpoint:
    """The head's signed checkpoint."""
    return SignedCheckpoint(notes.sign(Checkpoint(ORIGIN, head.size, head.root), SERVER))


def make_log(happened: Iterable[Event], *, every: int = 4) -> list[Record]:
    """A log with a checkpoint behind every few entries and at its end."""
    head, records = LogHead(), list[Record]()
    for event in happened:
        head, appended = head.append(event, time=START + head.size, clock=ClockSource.MANUAL)
        records.append(Logged(appended.data, appended.leaf))
        if head.size % every == 0:
            records.append(sealed(head))
    if not records or isinstance(records[-1], Logged):
        records.append(sealed(head))
    return records


def last_checkpoint(records: Iterable[Record]) -> str:
    """Text of the last checkpoint."""
    return [record.text for record in records if isinstance(record, SignedCheckpoint)][-1]


def root_document(*, signed_by: FileSigner = OPERATOR, log_key: FileSigner = SERVER) -> bytes:
    """A root document that names the operator as its one signer and the server's key as the log's."""
    document = RootDocument(
        federation=FEDERATION,
        version=1,
        suite="p256",
        issued=START,
        expires=START + 1,
        threshold=1,
        people=(Person(name="ada", organisation="a", role="operator", key=OPERATOR.public.b64),),
        ca=base64url.encode(b"certificate"),
        server=ServerKeys(signing=(log_key.public.b64,), hpke=()),
        sites=(),
    )
    return sign_threshold(document, signed_by)
