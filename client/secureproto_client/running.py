"""`client run`: one client in a site's directory, in one of three ways, and `client enroll` before it."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from secureproto.clock import SystemClock
from secureproto_client import enrol, first_settings, settings, studies
from secureproto_client.agent import Agent
from secureproto_client.enrol import Enrolling
from secureproto_client.link import over_https
from secureproto_client.logs import logging_to
from secureproto_client.opening import open_site
from secureproto_client.paths import SitePaths
from secureproto_client.rehearse import rehearse
from secureproto_client.site import Site
from secureproto_client.stopping import Stopped, in_good_order, only_client

PATIENCE_OF_A_PERSON = 3  # tries, when somebody waits at the terminal

log = logging.getLogger(__name__)


def run(paths: SitePaths, *, once: bool = False, until_complete: bool = False) -> None:
    """Work until stopped; `once`: answer the news there are; `until_complete`: until every study is over.

    Raises:
        SecureProtoError: what a person must look at. SIGTERM is none: it ends in good order.
    """
    in_good_order(lambda: _run(paths, once=once, until_complete=until_complete))


def _run(paths: SitePaths, *, once: bool, until_complete: bool) -> None:
    with _working(paths, tries=PATIENCE_OF_A_PERSON if once else None) as site:
        agent = Agent(site, time.sleep)
        try:
            if once:
                agent.resume()
                agent.step(wait=0)
            else:
                agent.run(until_complete=until_complete)
        except Stopped:
            log.info("stopped; what was begun is taken up by the next run")
            raise


def rehearse_all(paths: SitePaths) -> list[dict[str, object]]:
    """Rehearse every accepted study that has a version here.

    Raises:
        NotFound: there is none yet.
    """
    return in_good_order(lambda: _rehearse_all(paths)) or []


def _rehearse_all(paths: SitePaths) -> list[dict[str, object]]:
    with _working(paths, tries=PATIENCE_OF_A_PERSON) as site:
        Agent(site, time.sleep).prepare()
        pins = [pin for pin in site.facts.pins() if site.settings.study(pin.study).takes(pin.study_digest)]
        return [asdict(rehearse(site, studies.load(paths, site.facts, pin.study))) for pin in pins]


def enroll(
    paths: SitePaths, invitation: Path, *, credentials: Path | None, wait: bool, say: Callable[[str], None]
) -> None:
    """Enrol the site of an invitation in a directory; `say` shows the person what they must know.

    Raises:
        ApprovalNeeded: the operator has yet to decide.
        Rejected, Misconfigured, IntegrityBroken: as in `enrol`.
    """
    token, trust = enrol.read_invitation(invitation)
    paths.make()
    if first_settings.write_first(paths, credentials):
        say(f"settings for you to complete: {paths.settings}")
    said = settings.load(paths.settings)
    passphrase, made = first_settings.passphrase(credentials or said.credentials)
    if made:
        say(f"passphrase of this site's keys made: {made} (keep it apart from backups of {paths.root})")
    with only_client(paths):
        me = enrol.prepare(paths, token, trust, passphrase)
        link = over_https(me.file, said, trust, certificate=None, sleep=time.sleep, tries=PATIENCE_OF_A_PERSON)
        enrolling = Enrolling(paths, token, me, link, SystemClock())
        say(f"site {me.site} of {me.federation}, server {me.file.server}")

        def pending() -> None:
            say(f"root digest: {token.root_digest}")
            say(f"fingerprint: {enrol.request(enrolling).fingerprint()}")
            say("by telephone: check the root digest with the operator, and read them the fingerprint of your keys")

        try:
            enrol.enrol(enrolling, wait=wait, sleep=time.sleep, pending=pending)
        finally:
            link.close()
    say(f"enrolled: now complete {paths.settings}, then: secureproto client run {paths.root}")


@contextmanager
def _working(paths: SitePaths, *, tries: int | None) -> Iterator[Site]:
    said = settings.load(paths.settings)
    paths.make()
    with (
        only_client(paths),
        logging_to(paths.log, said.log_level),
        open_site(paths, clock=SystemClock(), sleep=time.sleep, tries=tries) as site,
    ):
        yield site
