"""A site on the disk, enrolled with the peer of `site_peer`, over a transport in this process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from secureproto.clock import ManualClock
from secureproto.data.factory import open_source
from secureproto.data.folds import Folding
from secureproto_client import enrol, opening, settings
from secureproto_client.agent import Agent
from secureproto_client.database import Database
from secureproto_client.enrol import Enrolling
from secureproto_client.facts import Facts
from secureproto_client.identity import Identity
from secureproto_client.journal import Journal
from secureproto_client.learner import Chosen, Counts, Learner, Scored, Trained
from secureproto_client.link import Link
from secureproto_client.models import Arrays, StoredModel
from secureproto_client.paths import SitePaths
from secureproto_client.site import Site
from secureproto_client.studies import Study
from secureproto_client.times import Times
from secureproto_client.training import TorchLearner
from secureproto_client.transport.memory import MemoryTransport
from secureproto_client.transport.patience import Patience
from secureproto_client.transport.seam import Transport
from secureproto_client.trust import Trust
from support.site_peer import STUDY, Peer

PASSPHRASE = b"correct horse"
KEY = b"k" * 32
RECORDS = """id,age,dose,rate,sex,pain,ecg,out
p1,30,0.5,60,f,1,0,0
p2,40,1.5,70,m,2,1,1
p3,50,0.2,80,f,3,0,0
p4,60,1.0,90,m,1,1,2
p5,35,0.4,65,f,2,0,0
p6,45,1.4,75,m,3,1,1
p7,55,0.3,85,f,1,0,0
p8,65,1.1,95,m,2,1,2
p9,33,0.6,61,f,3,0,0
p10,44,1.6,72,m,1,1,1
"""
SETTINGS = """
[data]
kind = "csv"
path = "patients.csv"
id_column = "id"
hold_out = 0.3

[studies.small]
accept = true
"""


class Counting:
    """A Learner that adds one to the head in every training, so that a version's head counts the updates in it."""

    def __init__(self, study: Study) -> None:
        self._schema = study.descriptor.model

    def train(self, base: StoredModel, round_number: int) -> Trained:
        head = {name: array + np.ones((), array.dtype) for name, array in base.head.items()}
        extractor = {name: array for name, array in base.shared.items() if name.startswith("extractor.")}
        sums = np.ones((self._schema.classes, self._schema.embedding_width + 1))
        return Trained({"prototypes": sums, **head, **extractor}, base.shared, head)

    def fine_tune(self, base: StoredModel, epochs: int | None) -> Trained:
        return self.train(base, base.note.version)

    def choose(self, base: StoredModel, epochs: int | None, longer: int, folding: Folding) -> Chosen:
        if epochs == 0:
            return Chosen("received", {}, 0, 0, base.shared, base.head)
        trained = self.fine_tune(base, epochs)
        return Chosen("local", {}, 0, 0, trained.shared, trained.head)

    def count(self) -> Counts:
        return Counts(1, 0, 0)

    def score(self, shared: Arrays, head: Arrays) -> Scored | None:
        return None


def no_sleep(_: float) -> None:
    """Time is the test's."""


@dataclass
class Rig:
    """A site that can be killed and started again: what is in memory goes, what is on the disk stays."""

    root: Path
    peer: Peer
    connect: Callable[[], Transport]
    learner_of: Callable[[Study], Learner] = Counting
    sleep: Callable[[float], None] = no_sleep
    tries: int | None = 1
    database: Callable[[Path], Database] = Database
    paths: SitePaths = field(init=False)
    clock: ManualClock = field(init=False)

    def __post_init__(self) -> None:
        self.paths, self.clock = SitePaths(self.root), self.peer.clock
        self._database: Database | None = None

    def enrol(self) -> Identity:
        """Enrol, as `client enroll` does, and receive nothing yet."""
        self.root.mkdir(parents=True, exist_ok=True)
        if not self.paths.settings.exists():
            self.paths.settings.write_text(SETTINGS)
            (self.root / "patients.csv").write_text(RECORDS)
        invitation = self.root / "site.invite"
        if not invitation.exists():
            from secureproto.wire import base64url

            invitation.write_text(base64url.encode(self.peer.invitation().canonical()) + "\n")
        token, trust = enrol.read_invitation(invitation)
        me = enrol.prepare(self.paths, token, trust, PASSPHRASE)
        enrol.enrol(Enrolling(self.paths, token, me, self.link(trust), self.clock), wait=False, sleep=self.sleep)
        return me

    def link(self, trust: Trust) -> Link:
        """A line to the peer."""
        return Link(trust, lambda _trust, _certificate: self.connect(), Patience(self.sleep, str, self.tries))

    def start(self) -> Agent:
        """The agent of a fresh process: everything is read from the disk."""
        self.kill()
        from secureproto_client import identity, roots

        me = identity.load(self.paths, PASSPHRASE)
        said = settings.load(self.paths.settings)
        self._database = self.database(self.paths.journal)
        link = self.link(roots.load(self.paths, me.file))
        link.refresh = lambda: opening._renew_if_due(self.paths, me, link, self.clock)
        facts = Facts(self._database)
        site = Site(
            paths=self.paths,
            identity=me,
            settings=said,
            journal=Journal(self._database),
            facts=facts,
            times=Times(self.clock, facts),
            clock=self.clock,
            link=link,
            learner_of=self.learner_of,
        )
        return Agent(site, self.sleep)

    def kill(self) -> None:
        """What a killed process leaves: its files."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def head_count(self, agent: Agent, name: str) -> float:
        """How much was added to the first version's head by the updates in version `name`."""
        store, schema = agent.site.models(STUDY), self.peer.schema
        first, now = store.load("0", schema), store.load(name, schema)
        differences = {float(x) for key in first.head for x in np.ravel(now.head[key] - first.head[key]).round(3)}
        assert len(differences) == 1
        return differences.pop()


def torch_learner(paths: SitePaths) -> Callable[[Study], Learner]:
    """The real learner on the rig's CSV file."""
    said = settings.load(paths.settings)
    paths.hold_out_key.write_bytes(KEY)  # the same folds in every run

    def make(study: Study) -> Learner:
        source = open_source(said.data_for(study.name), key=KEY)
        return TorchLearner(study.file, study.descriptor.model, source.load, site="cleveland")

    return make


def enrolled(root: Path, peer: Peer, **values: object) -> Rig:
    """A rig that is enrolled; the peer has version 0 for it."""
    rig = Rig(root, peer, lambda: MemoryTransport(peer.handle), **values)  # type: ignore[arg-type]  # fields of Rig
    rig.enrol()
    peer.publish_first()
    return rig


def with_records(rig: Rig, records: str) -> Agent:
    """The agent of a fresh process with the real learner, on these records."""
    (rig.root / "patients.csv").write_text(records)
    rig.learner_of = torch_learner(rig.paths)
    return rig.start()
