"""The server's parts without a process or a port: rows and blobs in memory, a clock that the test moves."""

from dataclasses import dataclass
from pathlib import Path

from secureproto.clock import ManualClock, SystemClock
from secureproto.crypto.envelope import sign, sign_threshold, verify
from secureproto.crypto.keys import FileSigner, load_signer
from secureproto.crypto.passphrase import read_passphrase
from secureproto.wire import base64url
from secureproto.wire.messages import (
    EnrolmentReply,
    Invitation,
    InviteToken,
    Person,
    PollReply,
    PollRequest,
    RootDocument,
    SiteEntry,
)
from secureproto_server import admission, creation, enrolment, identity, news, roots, settings
from secureproto_server.clock_guard import GuardedClock
from secureproto_server.founding import Charter, found
from secureproto_server.log import Log
from secureproto_server.metrics import ServerMetrics
from secureproto_server.services import Services
from secureproto_server.storage.blobs import BlobStore
from secureproto_server.storage.memory import MemoryStore
from secureproto_server.storage.memory_blobs import MemoryBlobs
from secureproto_server.storage.records import Root
from support.sim_site import Keys, SimSite
from support.sim_site import enrolment as request_of
from support.sim_study import SimStudy

NAME = "testbed"


@dataclass
class Member:
    """An enrolled site: what it signs with, and the certificate that TLS would have verified."""

    site: SimSite
    certificate: bytes


@dataclass
class Parts:
    """A founded federation's server, and its operator."""

    services: Services
    clock: ManualClock
    person: Person
    operator: FileSigner

    @property
    def root(self) -> RootDocument:
        with self.services.store.transaction("look") as tx:
            return roots.in_force(tx)

    def invite(self, name: str, *, hours: int = 1) -> InviteToken:
        return admission.issue_token(self.services, self.person, site=name, hours=hours)

    def stranger(self, name: str, directory: Path) -> SimSite:
        """A site that has keys and nothing else."""
        site = SimSite(directory / name, name, keys=Keys.make(), root=self.root, port=1)
        site.clock = self.clock
        site.close()
        return site

    def ask(self, site: SimSite, token: InviteToken) -> EnrolmentReply:
        """Send the enrolment request, or ask for its decision."""
        _, reply = enrolment.enrol(self.services, request_of(site, token))
        return verify(reply, EnrolmentReply, site.server)

    def next_root(self, site: SimSite, **changes: object) -> bytes:
        """The next root document, with the site on its roster."""
        before = self.root
        entry = SiteEntry(site=site.name, keys=site.keys.public, since=before.version + 1)
        others = [known for known in before.sites if known.site != site.name]
        update = {
            "version": before.version + 1,
            "issued": int(self.clock.now()),
            "sites": tuple(sorted((*others, entry), key=lambda known: known.site)),
            **changes,
        }
        return sign_threshold(before.model_copy(update=update), self.operator)

    def approve(self, site: SimSite, fingerprint: str) -> RootDocument:
        return admission.approve(
            self.services, self.person, site=site.name, fingerprint=fingerprint, envelope=self.next_root(site)
        )

    def enrol(self, name: str, directory: Path) -> Member:
        """A site that may take part."""
        site, token = self.stranger(name, directory), self.invite(name)
        self.approve(site, self.ask(site, token).fingerprint)
        return Member(site, base64url.decode(self.ask(site, token).certificates[0]))

    def create(self, study: SimStudy) -> SimStudy:
        """A study with its version 0."""
        envelope = sign(study.descriptor(NAME), self.operator)
        body = creation.parts(envelope, study.shared_bytes(), study.head_bytes())
        creation.create(self.services, self.person, body)
        return study

    def poll(self, member: Member) -> PollReply:
        """What is new for a site that knows nothing."""
        request = PollRequest(
            federation=NAME,
            site=member.site.name,
            now=int(self.clock.now()),
            wait=0,
            root_version=1,
            known=(),
            client_version="0.1.0",
        )
        poll = news.authenticate(self.services, sign(request, member.site.signer), member.certificate)
        return verify(news.reply(self.services, poll)[1], PollReply, member.site.server)

    def invitation(self, member: Member) -> Invitation:
        return self.poll(member).invitations[0]


def parts_in(directory: Path, *, blobs: BlobStore | None = None) -> Parts:
    """Found a federation in a directory and take its server apart."""
    base, credentials = directory / "federation", directory / "credentials"
    found(base, Charter(NAME, ("localhost",), "alice", "Test Hospital"), credentials, SystemClock())
    values = settings.load(base / "server")
    clock = ManualClock(float(int(SystemClock().now())))
    guarded = GuardedClock(clock)
    keys, store, metrics = identity.load(values), MemoryStore(), ServerMetrics(guarded)
    envelope = (base / "server/root.json").read_bytes()
    root = roots.founding(envelope)
    with store.transaction("found") as tx:
        tx.insert(Root(root.version, root.digest(), envelope))
    services = Services(
        settings=values,
        federation=NAME,
        epoch=1,
        public_url="https://localhost:1",
        clock=guarded,
        store=store,
        blobs=blobs or MemoryBlobs(),
        identity=keys,
        log=Log(NAME, keys.signer, guarded, metrics),
        metrics=metrics,
        sampling_seed=bytes(32),
    )
    operator = load_signer(base / "operator/operator.key", read_passphrase("operator", credentials))
    return Parts(services, clock, root.people[0], operator)
