"""The first schema.

A step is frozen once released: it repeats names and types instead of importing the tables of today.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0001"
down_revision = None
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create every table, parents first."""
    _keys_and_values()
    _sites()
    _studies()
    _rounds()
    _models()


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, TEXT, nullable=nullable)


def _integer(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=nullable)


def _bytes(name: str, *, nullable: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=nullable)


def _state(kind: str, *states: str) -> sa.Column[str]:
    word = sa.Enum(*states, name=kind, native_enum=False, create_constraint=True, length=16)
    return sa.Column("state", word, nullable=False)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))


def _refers(table: str, other: str, *columns: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_{other}")
    # a reference to a site may stand in a column of another name (`sender`)
    theirs = ["site"] if other == "sp_site" else columns
    return sa.ForeignKeyConstraint(columns, [f"{other}.{column}" for column in theirs], name=name)


def _keys_and_values() -> None:
    op.create_table("sp_meta", _text("key"), _text("value"), _key("sp_meta", "key"))
    op.create_table("sp_nonce", _text("nonce"), _integer("expires"), _key("sp_nonce", "nonce"))
    op.create_table(
        "sp_auditentry",
        *(_integer("sequence"), _bytes("data"), _bytes("leaf")),
        _key("sp_auditentry", "sequence"),
    )


def _sites() -> None:
    op.create_table("sp_root", _integer("version"), _text("digest"), _bytes("envelope"), _key("sp_root", "version"))
    op.create_table(
        "sp_token",
        *(_text("token_id"), _text("site"), _text("secret_digest"), _integer("issued"), _integer("expires")),
        _state("tokenstate", "issued", "used", "void"),
        _text("enrolment_fingerprint", nullable=True),
        _text("root_digest"),
        _key("sp_token", "token_id"),
    )
    op.create_table(
        "sp_enrolment",
        *(_text("site"), _text("token_id"), _text("fingerprint"), _bytes("request")),
        _state("enrolmentstate", "pending", "approved", "denied"),
        *(_integer("created"), _integer("decided", nullable=True)),
        _key("sp_enrolment", "site", "token_id"),
        _refers("sp_enrolment", "sp_token", "token_id"),
    )
    key_ids = ("signing_key_id", "hpke_key_id", "tls_key_id")
    op.create_table(
        "sp_site",
        _text("site"),
        _state("sitestate", "active", "suspended", "revoked", "withdrawn"),
        *(_text(name) for name in (*key_ids, "signing_key", "hpke_key", "tls_key")),
        *(_integer("enrolled"), _integer("last_seen", nullable=True)),
        _key("sp_site", "site"),
        *(sa.UniqueConstraint(name, name=op.f(f"uq_sp_site_{name}")) for name in key_ids),
    )


def _studies() -> None:
    op.create_table(
        "sp_study",
        *(_text("study"), _text("digest"), _bytes("descriptor")),
        _state("studystate", "open", "held", "closed", "completed"),
        *(_integer(name) for name in ("version", "rounds_wanted", "next_round", "created")),
        _key("sp_study", "study"),
    )


def _rounds() -> None:
    op.create_table(
        "sp_round",
        *(_text("study"), _integer("round"), _integer("base_version"), _text("phase")),
        *(_integer("opened"), _integer("deadline"), _integer("quorum")),
        *(_text("outcome", nullable=True), _integer("closed", nullable=True)),
        _key("sp_round", "study", "round"),
        _refers("sp_round", "sp_study", "study"),
    )
    op.create_table(
        "sp_participant",
        *(_text("study"), _integer("round"), _text("site")),
        _state("participantstate", "invited", "submitted", "declined", "dropped"),
        _text("detail"),
        _key("sp_participant", "study", "round", "site"),
        _refers("sp_participant", "sp_round", "study", "round"),
        _refers("sp_participant", "sp_site", "site"),
    )
    op.create_table(
        "sp_upload",
        *(_text("study"), _integer("round"), _text("sender"), _text("manifest_digest"), _bytes("manifest")),
        _state("uploadstate", "reserved", "received"),
        *(_integer("received_at", nullable=True), _bytes("receipt", nullable=True), _text("blob")),
        _key("sp_upload", "study", "round", "sender"),
        _refers("sp_upload", "sp_round", "study", "round"),
        _refers("sp_upload", "sp_site", "sender"),
    )


def _models() -> None:
    op.create_table(
        "sp_head",
        *(_text("study"), _text("site"), _integer("version"), _text("blob"), _bytes("manifest")),
        _key("sp_head", "study", "site", "version"),
        _refers("sp_head", "sp_study", "study"),
    )
    op.create_table(
        "sp_published",
        *(_text("study"), _integer("version"), _integer("round", nullable=True)),
        *(_text("blob"), _text("digest"), _bytes("manifest")),
        _key("sp_published", "study", "version"),
        _refers("sp_published", "sp_study", "study"),
    )
