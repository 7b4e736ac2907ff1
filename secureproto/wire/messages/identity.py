"""Who is who: keys, roster, root document, enrolment (SECURITY.md, Identity and enrolment)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from secureproto.wire import canonical
from secureproto.wire.messages.base import Base64, Count, Digest, Hex128, Line, Message, Name, Time


class PublicKeys(Message):
    """A party's three public keys, SPKI DER in base64: they never stand for each other."""

    tls: Base64
    signing: Base64
    hpke: Base64


class SiteEntry(Message):
    """A site on the roster."""

    site: Name
    keys: PublicKeys
    since: Count  # the version of the root document that first named these keys


class Person(Message):
    """Somebody who may sign; `role` as in OPERATIONS.md."""

    name: Name
    organisation: Line
    role: Literal["operator", "privacy_officer", "security_officer", "auditor"]
    key: Base64


class ServerKeys(Message):
    """The server's public keys in force; the first of each is the active one."""

    signing: tuple[Base64, ...]
    hpke: tuple[Base64, ...]


class RootDocument(Message):
    """Who is who: pinned by every site, signed by `threshold` of the people of the version before."""

    LABEL: ClassVar[str] = "secureproto/v1/root"
    federation: Name
    version: Annotated[int, Field(ge=1, le=2**40)]
    suite: Literal["p256"]
    issued: Time
    expires: Time
    threshold: Annotated[int, Field(ge=1, le=100)]
    people: tuple[Person, ...]
    ca: Base64  # the root CA's certificate, DER
    server: ServerKeys
    sites: tuple[SiteEntry, ...]


class InviteToken(Message):
    """What an operator hands to a site, by a channel that keeps a secret: a file, base64url of these bytes."""

    LABEL: ClassVar[str] = "secureproto/v1/invite"
    federation: Name
    site: Name
    server: Line  # https://host:port
    token: Hex128
    secret: Base64  # 32 random bytes; the server keeps their SHA-256
    expires: Time
    root_digest: Digest
    root: Base64  # the signed root document itself: the site reads the CA from it before it connects


class EnrolmentRequest(Message):
    """A site asks to be enrolled; signed by its new signing key. Repeated until it is decided."""

    LABEL: ClassVar[str] = "secureproto/v1/enrolment-request"
    federation: Name
    site: Name
    token: Hex128
    secret: Base64
    root_digest: Digest
    keys: PublicKeys
    csr: Base64  # DER
    issued: Time

    def fingerprint(self) -> str:
        """What both sides read to each other: digest over site and keys."""
        return canonical.labelled_digest(
            "secureproto/v1/fingerprint",
            canonical.encode([self.federation, self.site, self.keys.model_dump()]),
        )


class EnrolmentReply(Message):
    """The server's answer to an enrolment or renewal; signed by the server."""

    LABEL: ClassVar[str] = "secureproto/v1/enrolment-reply"
    federation: Name
    site: Name
    state: Literal["pending", "approved", "denied"]
    fingerprint: Digest
    certificates: tuple[Base64, ...]  # DER, leaf first, then the intermediate; empty until approved
    root_version: Count
    now: Time


class RenewalRequest(Message):
    """An enrolled site asks for a new TLS certificate; signed by its signing key, no client certificate needed."""

    LABEL: ClassVar[str] = "secureproto/v1/renewal-request"
    federation: Name
    site: Name
    csr: Base64
    issued: Time
