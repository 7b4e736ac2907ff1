"""The studies a site takes part in: verified as the operator signed them, pinned, and accepted by the site.

1  the descriptor is signed by an operator of the root document in force, for this federation
2  its study file has the digest that it names, its model the schema digest, and its name is the study's
3  it is what the site pinned when it first accepted it; what the engineer wrote as `digest` must match too
4  the site's settings accept it: silence is no
"""

from dataclasses import dataclass
from functools import cached_property

from secureproto.crypto.envelope import Envelope, unverified
from secureproto.errors import IntegrityBroken, NotFound, PolicyDenied, Rejected
from secureproto.study import file as study_files
from secureproto.study.schema import StudyFile
from secureproto.wire import base64url
from secureproto.wire.messages import StudyDescriptor
from secureproto_client.durable import replace
from secureproto_client.facts import Facts, Pin
from secureproto_client.paths import SitePaths
from secureproto_client.settings import Settings
from secureproto_client.trust import Trust


@dataclass(frozen=True)
class Study:
    """A study whose descriptor was verified."""

    descriptor: StudyDescriptor

    @property
    def name(self) -> str:
        return self.descriptor.study

    @cached_property
    def file(self) -> StudyFile:
        """The study file, parsed. Raises Misconfigured."""
        return study_files.load(base64url.decode(self.descriptor.file), name=f"study {self.name}")

    @property
    def pin(self) -> Pin:
        """What the site holds on to."""
        digests = (self.descriptor.study_digest, self.descriptor.schema_digest, self.descriptor.digest())
        return Pin(self.name, *digests)


def verified(signed: bytes, trust: Trust, name: str) -> Study:
    """Checks 1 and 2.

    Raises:
        IntegrityBroken: not the operator's, or it does not agree with itself.
    """
    descriptor = trust.from_operator(signed, StudyDescriptor)
    file = base64url.decode(descriptor.file)
    named = (descriptor.federation, descriptor.study)
    if named != (trust.document.federation, name):
        raise IntegrityBroken(f"the descriptor is of another study than {name}")
    if study_files.digest(file) != descriptor.study_digest or descriptor.model.digest() != descriptor.schema_digest:
        raise IntegrityBroken(f"the descriptor of {name} does not agree with its own digests")
    study = Study(descriptor)
    if study.file.name != name:
        raise IntegrityBroken(f"the study file of {name} is of a study called {study.file.name}")
    return study


def accept(study: Study, signed: bytes, *, paths: SitePaths, settings: Settings, facts: Facts) -> None:
    """Checks 3 and 4; then the study is on the disk and pinned.

    Raises:
        PolicyDenied: the site's settings do not accept it.
        IntegrityBroken: it is not what was pinned.
    """
    said = settings.study(study.name)
    if not said.accept:
        raise PolicyDenied(
            f"study {study.name} is not accepted at this site",
            reasons=("study_not_accepted",),
            hint=f"read it; then set [studies.{study.name}] accept = true in client.toml and start the client again",
        )
    if said.digest is not None and said.digest != study.descriptor.study_digest:
        raise PolicyDenied(
            f"study {study.name} has digest {study.descriptor.study_digest}, client.toml accepts another",
            reasons=("study_not_accepted",),
            hint="compare the study files, then correct the digest in client.toml",
        )
    if study.file.privacy is not None:
        # without a ledger nothing could be charged before it leaves
        raise PolicyDenied(
            f"study {study.name} has [privacy], which this version cannot enforce",
            reasons=("privacy_not_enforced",),
            hint="nothing was sent; install a version that keeps a privacy ledger",
        )
    facts.demand_pinned(study.pin)
    replace(paths.studies / f"{study.name}.json", signed)
    facts.pin(study.pin)


def load(paths: SitePaths, facts: Facts, name: str) -> Study:
    """A study from the disk: exactly the one that was verified and pinned, whoever is operator today.

    Raises:
        NotFound: the site does not have it.
        IntegrityBroken: it is damaged or replaced.
    """
    path = paths.studies / f"{name}.json"
    try:
        descriptor = unverified(path.read_bytes(), StudyDescriptor, Envelope)
    except OSError:
        raise NotFound(f"study {name} is not known here", hint="`client run` receives it") from None
    except Rejected as error:
        raise IntegrityBroken(f"{path}: {error.message}") from None
    study = Study(descriptor)
    if facts.pinned(name) != study.pin:
        raise IntegrityBroken(f"{path} is not the study that this site accepted")
    return study
