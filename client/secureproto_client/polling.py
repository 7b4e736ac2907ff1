"""The long poll: what the site tells of itself, and what of the server's answer it may believe.

    1  signed by the server's key of the root document in force; this federation, this site
    2  signed about now (`times`), in no older epoch than the site has seen
    3  a newer root document is followed before anything else of the answer is used

A poll is also the heartbeat. It says what the site has, so that the server answers at once when there is news.
"""

from collections.abc import Iterable

from secureproto import __version__
from secureproto.crypto import envelope
from secureproto.errors import IntegrityBroken
from secureproto.wire.messages import PollReply, PollRequest, StudyKnown
from secureproto_client import roots
from secureproto_client.enrol import fetch_root
from secureproto_client.problems import demand
from secureproto_client.releases import EPOCH
from secureproto_client.site import Site
from secureproto_client.transport.seam import Transport
from secureproto_client.trust import demand_own_keys

PATH = "/v1/poll"
LAST_CONTACT = "last_contact"


def poll(site: Site, known: Iterable[StudyKnown], *, wait: int) -> PollReply:
    """One answer of the server, checks 1 to 3 done.

    Raises:
        Rejected: the server does not admit this site (unknown, suspended, revoked).
        IntegrityBroken, ApprovalNeeded: a check fails.
    """
    request = PollRequest(
        federation=site.identity.federation,
        site=site.identity.site,
        now=site.times.now(),
        wait=wait,
        root_version=site.link.trust.document.version,
        known=tuple(known),
        client_version=__version__,
    )
    body = envelope.sign(request, site.identity.signer)

    def once(transport: Transport) -> PollReply:
        return site.link.trust.from_server(demand(transport.post(PATH, body, wait=wait), 200), PollReply)

    reply = site.link.ask(once)
    _judge(site, reply)
    _follow(site, reply.root_version)
    site.link.trust.demand_fresh(site.times.now())
    site.facts.raise_number(LAST_CONTACT, reply.now)
    return reply


def known_of(site: Site, study: str) -> StudyKnown:
    """What the site has of a study that it accepted."""
    latest = site.facts.latest(study)
    return StudyKnown(
        study=study,
        answered_round=site.journal.answered(study),
        version=latest.version if latest else -1,
        outcome_round=site.journal.last_outcome(study),
    )


def _judge(site: Site, reply: PollReply) -> None:
    if (reply.federation, reply.site) != (site.identity.federation, site.identity.site):
        raise IntegrityBroken("the server's answer is for another site or federation")
    site.times.accept(reply.now)
    if reply.epoch < site.facts.number(EPOCH):
        raise IntegrityBroken(
            f"the server is in epoch {reply.epoch}, this site has seen {site.facts.number(EPOCH)}",
            hint="the server was rolled back: call the operator",
        )
    site.facts.raise_number(EPOCH, reply.epoch)


def _follow(site: Site, version: int) -> None:
    if version == site.link.trust.document.version:
        return
    trust = roots.follow(site.paths, site.link.trust, version, lambda number: fetch_root(site.link, number))
    demand_own_keys(trust, site.identity.site, site.identity.keys)
    site.link.renew(trust)
