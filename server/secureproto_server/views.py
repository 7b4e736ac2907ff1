"""What an operator is shown: rows as plain records. Never keys' secrets, never a figure of one site's data."""

from typing import Any

from secureproto.clock import seconds
from secureproto.errors import NotFound
from secureproto.wire import base64url
from secureproto_server import phases, releases, roots, rounds, studies
from secureproto_server.phases import Phase
from secureproto_server.services import Services
from secureproto_server.storage.records import (
    Enrolment,
    EnrolmentState,
    ParticipantState,
    Published,
    Round,
    Site,
    SiteState,
    Study,
)
from secureproto_server.storage.store import Transaction

Record = dict[str, Any]


def status(services: Services, version: str) -> Record:
    """The server at a glance."""
    with services.store.transaction("read status") as tx:
        root = roots.in_force(tx)
        sites = tx.select(Site)
        running = [rounds.current(tx, row.study) for row in tx.select(Study)]
        pending = tx.select(Enrolment, state=EnrolmentState.PENDING)
    return {
        "federation": services.federation,
        "version": version,
        "epoch": services.epoch,
        "now": seconds(services.clock),
        "root_version": root.version,
        "root_expires": root.expires,
        "sites_active": sum(site.state is SiteState.ACTIVE for site in sites),
        "sites_pending": len(pending),
        "rounds_running": sum(row is not None for row in running),
        "log_size": services.log.size(services.store),
        "signing_key": services.identity.signer.public.key_id,
    }


def sites(services: Services) -> list[Record]:
    """Enrolled sites, and requests that wait."""
    with services.store.transaction("list sites") as tx:
        enrolled = [
            {
                "site": row.site,
                "state": str(row.state),
                "enrolled": row.enrolled,
                "last_seen": row.last_seen,
                "key": row.signing_key_id[:16],
            }
            for row in tx.select(Site)
        ]
        waiting = [
            {"site": row.site, "state": "pending", "enrolled": None, "last_seen": None, "key": None}
            for row in tx.select(Enrolment, state=EnrolmentState.PENDING)
        ]
    return [*enrolled, *waiting]


def enrolments(services: Services) -> list[Record]:
    """Requests to enrol, newest state. The request is there while it waits: the desk computes its fingerprint."""
    with services.store.transaction("list enrolments") as tx:
        return [
            {
                "site": row.site,
                "state": str(row.state),
                "created": row.created,
                "request": base64url.encode(row.request) if row.state is EnrolmentState.PENDING else "",
            }
            for row in tx.select(Enrolment)
        ]


def all_studies(services: Services) -> list[Record]:
    """Every study."""
    with services.store.transaction("list studies") as tx:
        return [_study(row) for row in tx.select(Study)]


def study(services: Services, name: str) -> Record:
    """One study."""
    with services.store.transaction("read study") as tx:
        row = studies.require(tx, name)
    plan = studies.PLANS.of(row)
    descriptor = plan.descriptor
    return {
        **_study(row),
        "title": plan.file.title,
        "classes": list(plan.file.classes),
        "quorum": plan.file.rounds.quorum,
        "schema_digest": descriptor.schema_digest,
        "parameters": sum(t.elements for t in plan.upload_schema.tensors if "." in t.name),
        "created": row.created,
    }


def round_(services: Services, name: str, number: int | None) -> Record:
    """One round; without a number the last one. Who has answered, never with what."""
    with services.store.transaction("read round") as tx:
        row = studies.require(tx, name)
        if row.next_round == 0:
            raise NotFound(f"study {name} has had no round", hint=f"secureproto round open {name}")
        standing = rounds.standing(tx, name, row.next_round - 1 if number is None else number)
        version = _version_after(standing.row)
    answers = {state: [p.site for p in standing.participants if p.state is state] for state in ParticipantState}
    return {
        "study": name,
        "round": standing.row.round,
        "phase": str(standing.phase),
        "base_version": standing.row.base_version,
        "version": version,
        "opened": standing.row.opened,
        "deadline": standing.row.deadline,
        "closed": standing.row.closed,
        "quorum": standing.rules.quorum,
        **{str(state): names for state, names in answers.items()},
        "details": {p.site: p.detail for p in standing.participants if p.detail},
        "ended": standing.phase in phases.ENDS,
        "rounds_wanted": row.rounds_wanted,
    }


def models(services: Services, name: str) -> list[Record]:
    """The published versions of a study."""
    with services.store.transaction("list versions") as tx:
        row = studies.require(tx, name)
        found = [version for version in tx.select(Published, study=name) if version.version <= row.version]
        return [_model(tx, version) for version in found]


def root_document(services: Services) -> bytes:
    """The root document in force, with its signatures."""
    with services.store.transaction("read root") as tx:
        return roots.row_in_force(tx).envelope


def shared_part(services: Services, name: str, version: int) -> Published:
    """The row of a version's shared part.

    Raises:
        NotFound: it is not published.
    """
    with services.store.transaction("read version") as tx:
        if version > studies.require(tx, name).version:
            raise NotFound(f"study {name} has no version {version}")
        return releases.require_published(tx, name, version)


def _study(row: Study) -> Record:
    return {
        "study": row.study,
        "state": str(row.state),
        "version": row.version,
        "rounds": row.next_round,
        "rounds_wanted": row.rounds_wanted,
        "digest": row.digest,
    }


def _model(tx: Transaction, row: Published) -> Record:
    round_row = None if row.round is None else tx.get(Round, row.study, row.round)
    return {
        "study": row.study,
        "version": row.version,
        "round": row.round,
        "published": round_row.closed if round_row else None,
        "digest": row.digest,
    }


def _version_after(row: Round) -> int | None:
    if row.outcome is None:
        return None
    return row.base_version + (Phase(row.outcome) is Phase.COMPLETED)
