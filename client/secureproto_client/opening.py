"""Opening a site's directory: settings, keys, root documents, database and line, as one `Site`.

Invariant: nothing is asked of the server here; what is wrong on this host is told before anything starts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from secureproto.clock import Clock, seconds
from secureproto.crypto.passphrase import read_passphrase
from secureproto_client import certificates, identity, roots, settings
from secureproto_client.database import Database
from secureproto_client.facts import Facts
from secureproto_client.identity import PASSPHRASE, Identity
from secureproto_client.journal import Journal
from secureproto_client.link import Link, over_https
from secureproto_client.paths import SitePaths
from secureproto_client.settings import Settings
from secureproto_client.site import Site
from secureproto_client.stopping import only_client
from secureproto_client.studies import Study
from secureproto_client.times import Times

if TYPE_CHECKING:
    from secureproto.data.source import Loaded
    from secureproto_client.training import TorchLearner


@contextmanager
def open_site(
    paths: SitePaths, *, clock: Clock, sleep: Callable[[float], None], tries: int | None = None
) -> Iterator[Site]:
    """The enrolled site of a directory. `tries`: how often an unreachable server is asked; None: for ever.

    Raises:
        Misconfigured: settings, keys or certificate are missing or do not fit.
        IntegrityBroken: the root documents on the disk are not those of the invitation.
    """
    said = settings.load(paths.settings)
    me = identity.load(paths, read_passphrase(PASSPHRASE, said.credentials))
    certificates.leaf(paths)
    trust = roots.load(paths, me.file)
    link = over_https(me.file, said, trust, certificate=me.certificate, sleep=sleep, tries=tries)
    link.refresh = lambda: _renew_if_due(paths, me, link, clock)
    database = Database(paths.journal)
    try:
        facts = Facts(database)
        yield Site(
            paths=paths,
            identity=me,
            settings=said,
            journal=Journal(database),
            facts=facts,
            times=Times(clock, facts),
            clock=clock,
            link=link,
            learner_of=lambda study: learner_of(paths, said, study, site=me.site),
        )
    finally:
        link.close()
        database.close()


def learner_of(paths: SitePaths, said: Settings, study: Study, *, site: str) -> "TorchLearner":
    """The site's computing for a study, by its settings. The records are read when they are first needed."""
    # here: torch takes seconds to load, and only these verbs compute
    from secureproto_client.training import TorchLearner

    return TorchLearner(
        study.file,
        study.descriptor.model,
        lambda _: _read(paths, said, study),
        site=site,
        allowed_factories=said.study(study.name).allowed_factories,
        threads=said.training.threads,
    )


def load_records(paths: SitePaths, said: Settings, study: Study) -> "Loaded":
    """The site's records for a study, beside a running client or without one.

    Raises:
        Misconfigured: they cannot be read, or do not fit the study.
        Conflict: the site has no hold-out key yet, and a client runs that may be making it.
    """
    if paths.hold_out_key.exists():
        return _read(paths, said, study)
    with only_client(paths):
        return _read(paths, said, study)


def _read(paths: SitePaths, said: Settings, study: Study) -> "Loaded":
    """The caller holds the lock of the site's state, or the hold-out key is there."""
    from secureproto.data.factory import open_source
    from secureproto_client.holdout_key import read_or_make_key

    allowed = said.study(study.name).allowed_factories
    key = read_or_make_key(paths.hold_out_key)
    return open_source(said.data_for(study.name), key=key, allowed_factories=allowed).load(study.file)


def _renew_if_due(paths: SitePaths, me: Identity, link: Link, clock: Clock) -> None:
    now = seconds(clock)
    if certificates.due(paths, now):
        certificates.renew(paths, me, link, now)
