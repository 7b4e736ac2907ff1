"""What a site's directory says of it, without asking the server and beside a running client."""

from collections import Counter

from secureproto.clock import utc_text
from secureproto.errors import NotFound, SecureProtoError
from secureproto_client import certificates, choices, identity, roots, scores, settings, studies
from secureproto_client.database import Database
from secureproto_client.facts import Facts
from secureproto_client.journal import OPEN, Journal
from secureproto_client.models import ModelStore, is_private
from secureproto_client.paths import SitePaths
from secureproto_client.pointer import Pointer
from secureproto_client.polling import LAST_CONTACT
from secureproto_client.settings import Settings
from secureproto_client.stopping import running


def status(paths: SitePaths) -> dict[str, object]:
    """Who the site is, how far it is with each study, and how good each model is on its held-out records.

    Raises:
        Misconfigured: not a site's directory, or its settings do not fit.
        IntegrityBroken: its root documents do not hold.
    """
    me, said = identity.read_site_file(paths), settings.load(paths.settings)
    trust = roots.load(paths, me)
    found = {
        "site": me.site,
        "federation": me.federation,
        "server": me.server,
        "root_version": trust.document.version,
        "certificate_expires": _expiry(paths),
        "running": running(paths),
        "last_contact": None,
        "log": str(paths.log),
        "studies": [],
    }
    if paths.journal.exists():
        database = Database(paths.journal)
        try:
            found["last_contact"] = _time(Facts(database).number(LAST_CONTACT))
            found["studies"] = _studies(paths, said, database)
        finally:
            database.close()
    return found


def flat(found: dict[str, object]) -> list[dict[str, object]]:
    """The status as rows of two columns, for a table."""
    rows: list[dict[str, object]] = []

    def add(name: str, value: object) -> None:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                add(f"{name}.{key}" if name else str(key), inner)
        elif isinstance(value, list):
            for inner in value:
                label = str(inner.get("study", "")) if isinstance(inner, dict) else ""
                add(f"{name}.{label}" if label else name, inner)
        else:
            rows.append({"what": name, "is": value})

    add("", found)
    return rows


def model_rows(paths: SitePaths, only: str | None = None) -> list[dict[str, object]]:
    """Every model here, with its scores. Raises NotFound when `only` is not a study with models."""
    known = scores.read(paths.scores)
    rows: list[dict[str, object]] = []
    for store in model_stores(paths, only):
        choice = Pointer(store).choice()
        for name in store.names():
            note = store.note(name)
            scored = known.get(store.study, {}).get(name, {})
            rows.append(
                {
                    "study": store.study,
                    "model": name,
                    "origin": note.origin,
                    "private": is_private(name),
                    "in_use": bool(choice and choice.current == name),
                    "held": bool(choice and choice.current == name and choice.held),
                    **{key: scored.get(key) for key in ("accuracy", "balanced_accuracy", "auc", "n")},
                    "stored": utc_text(note.stored),
                }
            )
    return rows


def model_stores(paths: SitePaths, only: str | None = None) -> list[ModelStore]:
    """The stores of every study, or of one. Raises NotFound when there is none."""
    found = sorted(path.name for path in paths.models.iterdir() if path.is_dir()) if paths.models.is_dir() else []
    wanted = [name for name in found if only in (None, name)]
    if not wanted:
        raise NotFound(f"no model of {only} here" if only else "no model here yet", hint="`client run` receives them")
    return [ModelStore(paths.models, name) for name in wanted]


def _studies(paths: SitePaths, said: Settings, database: Database) -> list[dict[str, object]]:
    facts, journal, known = Facts(database), Journal(database), scores.read(paths.scores)
    return [_study(paths, said, facts, journal, known.get(pin.study, {}), pin.study) for pin in facts.pins()]


def _study(
    paths: SitePaths, said: Settings, facts: Facts, journal: Journal, scored: object, name: str
) -> dict[str, object]:
    rows = [row for row in journal.rounds() if row.study == name]
    latest, choice = facts.latest(name), Pointer(ModelStore(paths.models, name)).choice()
    digest = studies.load(paths, facts, name).descriptor.study_digest
    return {
        "study": name,
        "digest": digest,
        "accepted": said.study(name).takes(digest),
        "version": latest.version if latest else None,
        "final": bool(latest and latest.final),
        "in_use": choice.current if choice else None,
        "held": bool(choice and choice.held),
        "chosen": choices.read(paths.choices).get(name),
        "rounds": dict(Counter(str(row.state) for row in rows)),
        "open": [
            {"round": row.round, "state": str(row.state), "attempt": row.attempt} for row in rows if row.state in OPEN
        ],
        "protection": "unprotected",
        "scores": scored,
    }


def _expiry(paths: SitePaths) -> str | None:
    try:
        return utc_text(certificates.expires(paths))
    except SecureProtoError:
        return None  # not enrolled yet: shown as missing


def _time(seconds: int) -> str | None:
    return utc_text(seconds) if seconds else None
