"""Whom the site believes: the pinned root document, and every later version signed by the one before.

Pure: values in, values out; `roots` keeps them on disk. Invariants: version n+1 is accepted only with the signatures
of `threshold` people of version n, for the same federation, with the site's own keys unchanged; a message is the
server's only with a signature of a key that the root in force names; a study is the operator's only likewise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from secureproto.clock import utc_text
from secureproto.crypto import envelope
from secureproto.crypto.keys import PublicKey
from secureproto.errors import ApprovalNeeded, IntegrityBroken, Rejected
from secureproto.wire import base64url
from secureproto.wire.messages import Message, PublicKeys, RootDocument
from secureproto.wire.reasons import Reason

M = TypeVar("M", bound=Message)
Keys = Mapping[str, PublicKey]


@dataclass(frozen=True)
class Trust:
    """A root document in force, with the bytes it was signed as."""

    document: RootDocument = field(repr=False)
    signed: bytes = field(repr=False)

    @cached_property
    def server_keys(self) -> Keys:
        """The server's signing keys, by id."""
        return _by_id(self.document.server.signing)

    @cached_property
    def operator_keys(self) -> Keys:
        """The keys of the people whose role is operator, by id."""
        return _by_id(tuple(person.key for person in self.document.people if person.role == "operator"))

    @cached_property
    def ca(self) -> bytes:
        """The federation's root CA, DER."""
        return base64url.decode(self.document.ca)

    @cached_property
    def recipient(self) -> PublicKey:
        """The server's active HPKE key: what uploads are sealed to."""
        return PublicKey.from_b64(self.document.server.hpke[0])

    def from_server(self, data: bytes, kind: type[M]) -> M:
        """The message, if a server's key of this root signed it.

        Raises:
            IntegrityBroken: it did not; what came is not our server's.
        """
        return _verified(data, kind, self.server_keys, "the server")

    def from_operator(self, data: bytes, kind: type[M]) -> M:
        """The message, if an operator of this root signed it. Raises IntegrityBroken."""
        return _verified(data, kind, self.operator_keys, "an operator")

    def keys_of(self, site: str) -> PublicKeys | None:
        """The keys that the roster has for a site."""
        return next((entry.keys for entry in self.document.sites if entry.site == site), None)

    def demand_fresh(self, now: int) -> None:
        """Raises ApprovalNeeded when the document has expired: only people can sign the next."""
        if now >= self.document.expires:
            raise ApprovalNeeded(
                f"root document version {self.document.version} expired at {utc_text(self.document.expires)}",
                hint="the operator must publish a newer one",
            )


def pinned(signed: bytes, digest: str) -> Trust:
    """The root document whose digest an invitation brought, signed by the threshold of its own people.

    Raises:
        IntegrityBroken: it is another document, or not signed so.
    """
    try:
        document = envelope.open_pinned(signed, RootDocument, digest)
        envelope.verify_threshold(signed, RootDocument, _people(document), document.threshold)
    except Rejected as error:
        raise IntegrityBroken(f"root document: {error.message}", hint="ask for a new invitation") from None
    return Trust(document, signed)


def advance(trust: Trust, signed: bytes) -> Trust:
    """The next root document.

    Raises:
        IntegrityBroken: not exactly the next version, of another federation, or not signed by the threshold of the
            people of the version before.
    """
    before = trust.document
    try:
        after = envelope.verify_threshold(signed, RootDocument, _people(before), before.threshold)
    except Rejected as error:
        raise IntegrityBroken(f"next root document: {error.message}", hint=_ALARM) from None
    if after.version != before.version + 1:
        raise IntegrityBroken(f"root document {after.version} does not follow {before.version}", hint=_ALARM)
    if after.federation != before.federation:
        raise IntegrityBroken("the next root document is of another federation", hint=_ALARM)
    return Trust(after, signed)


def changes(before: RootDocument, after: RootDocument) -> list[str]:
    """What a new version changes, one line each, for the site's log."""
    return [
        *_differences("person", _persons(before), _persons(after)),
        *_differences("site", _sites(before), _sites(after)),
        *_differences("server signing key", _ids(before.server.signing), _ids(after.server.signing)),
        *_differences("server sealing key", _ids(before.server.hpke), _ids(after.server.hpke)),
        *_differences("certificate authority", _ids((before.ca,)), _ids((after.ca,))),
        *_differences("threshold", {str(before.threshold): ""}, {str(after.threshold): ""}),
    ]


_ALARM = "do not go on: somebody is replacing the people or keys of this federation; call the operator"


def _verified(data: bytes, kind: type[M], keys: Keys, who: str) -> M:
    try:
        return envelope.verify(data, kind, keys)
    except Rejected as error:
        hint = "if it goes on, something between changes the traffic, or the root document is out of date"
        raise IntegrityBroken(f"{kind.__name__} is not from {who}: {error.message}", hint=hint) from None


def _people(document: RootDocument) -> Keys:
    return _by_id(tuple(person.key for person in document.people))


def _by_id(keys: tuple[str, ...]) -> Keys:
    found = [PublicKey.from_b64(key) for key in keys]
    return {key.key_id: key for key in found}


def _persons(document: RootDocument) -> dict[str, str]:
    return {f"{p.name} ({p.role}, {p.organisation})": p.key for p in document.people}


def _sites(document: RootDocument) -> dict[str, str]:
    return {entry.site: str(entry.keys.model_dump()) for entry in document.sites}


def _ids(keys: tuple[str, ...]) -> dict[str, str]:
    return {f"…{key[-16:]}": "" for key in keys}


def _differences(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    added = [f"{kind} added: {name}" for name in after if name not in before]
    removed = [f"{kind} removed: {name}" for name in before if name not in after]
    changed = [f"{kind} has new keys: {name}" for name in after if name in before and after[name] != before[name]]
    return [*added, *removed, *changed]


def demand_own_keys(trust: Trust, site: str, keys: PublicKeys) -> None:
    """Raises IntegrityBroken when the roster has other keys for this site than its own, Rejected when it has none."""
    listed = trust.keys_of(site)
    if listed is None:
        raise Rejected(
            Reason.UNKNOWN_KEY,
            f"site {site} is not on the roster of root document {trust.document.version}",
            hint="it was not approved yet, or was removed: ask the operator",
        )
    if listed != keys:
        raise IntegrityBroken(f"the roster has other keys for site {site} than this site made", hint=_ALARM)
