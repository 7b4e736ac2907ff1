"""What the procedures of a site share: who it is, what it remembers, its line to the server, and its computing."""

from collections.abc import Callable
from dataclasses import dataclass

from secureproto.clock import Clock
from secureproto_client.facts import Facts
from secureproto_client.identity import Identity
from secureproto_client.journal import Journal
from secureproto_client.learner import Learner
from secureproto_client.link import Link
from secureproto_client.models import ModelStore
from secureproto_client.paths import SitePaths
from secureproto_client.settings import Settings
from secureproto_client.studies import Study
from secureproto_client.times import Times

LearnerOf = Callable[[Study], Learner]


@dataclass(frozen=True)
class Site:
    """One site, running. The caller holds the lock of its state."""

    paths: SitePaths
    identity: Identity
    settings: Settings
    journal: Journal
    facts: Facts
    times: Times
    clock: Clock
    link: Link
    learner_of: LearnerOf

    def models(self, study: str) -> ModelStore:
        """The models of a study."""
        return ModelStore(self.paths.models, study)
