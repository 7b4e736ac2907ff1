"""Memory and SQL are the same store: any program of operations has the same results and leaves the same rows."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from secureproto.errors import Conflict
from secureproto_server.storage.memory import MemoryStore
from secureproto_server.storage.migrate import upgrade
from secureproto_server.storage.records import KINDS, Meta, Round, Row, Site, SiteState, Study, Upload, key_of
from secureproto_server.storage.sql import SqlStore
from secureproto_server.storage.store import Store, Transaction
from support.rows import a_round, a_site, a_study, an_upload

SITES = st.sampled_from(("site-a", "site-b", "site-c"))
STUDIES = st.sampled_from(("heart", "lung"))
NUMBERS = st.integers(0, 2)

sites = st.builds(
    lambda site, keys, state, seen: replace(a_site(site, state=state, last_seen=seen), signing_key_id=keys),
    SITES,
    SITES,
    st.sampled_from(SiteState),
    st.none() | st.integers(0, 2**53 - 1),
)
studies = st.builds(lambda study, version: replace(a_study(study), version=version), STUDIES, NUMBERS)
rounds = st.builds(lambda study, number: a_round(study=study, round=number), STUDIES, NUMBERS)
uploads = st.builds(
    lambda study, number, sender, data: replace(an_upload(manifest=data), study=study, round=number, sender=sender),
    STUDIES,
    NUMBERS,
    SITES,
    st.binary(max_size=4),
)
# surrogates are no text, and PostgreSQL keeps no NUL
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3)
rows = st.one_of(sites, studies, rounds, uploads, st.builds(Meta, texts, texts))
selections: st.SearchStrategy[tuple[type[Row], dict[str, Any]]] = st.one_of(
    st.sampled_from([(kind, {}) for kind in KINDS]),
    st.tuples(st.just(Round), st.fixed_dictionaries({"study": STUDIES})),
    st.tuples(st.just(Site), st.fixed_dictionaries({"state": st.sampled_from(SiteState)})),
    st.tuples(st.just(Site), st.just({"last_seen": None})),
    st.tuples(st.just(Study), st.fixed_dictionaries({"version": NUMBERS})),
    st.tuples(st.just(Upload), st.fixed_dictionaries({"study": STUDIES, "sender": SITES})),
)

Operation = Callable[[Transaction], object]


class Undone(Exception):
    """Ends a transaction that shall leave nothing."""


def outcome(transaction: Transaction, operation: Operation) -> object:
    try:
        return operation(transaction)
    except (Conflict, ValueError) as refused:
        return type(refused), str(refused)


class Stores(RuleBasedStateMachine):
    """Each rule is one operation of the open transaction; transactions are committed or undone in between."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        url = f"sqlite:///{self.directory / 'state.db'}"
        upgrade(url)
        self.stores: tuple[Store, Store] = (MemoryStore(), SqlStore(url))
        self.open = ExitStack()
        self.transactions: list[Transaction] = []

    @initialize()
    def begin(self) -> None:
        self.open = ExitStack()
        self.transactions = [self.open.enter_context(store.transaction("test")) for store in self.stores]

    def both(self, operation: Operation) -> None:
        memory, database = (outcome(transaction, operation) for transaction in self.transactions)
        assert memory == database

    @rule(row=rows)
    def insert(self, row: Row) -> None:
        self.both(lambda transaction: transaction.insert(row))

    @rule(row=rows)
    def put(self, row: Row) -> None:
        self.both(lambda transaction: transaction.put(row))

    @rule(row=rows)
    def get(self, row: Row) -> None:
        self.both(lambda transaction: transaction.get(type(row), *key_of(row)))

    @rule(row=rows)
    def delete(self, row: Row) -> None:
        self.both(lambda transaction: transaction.delete(type(row), *key_of(row)))

    @rule(selection=selections, limit=st.none() | st.integers(0, 3))
    def select(self, selection: tuple[type[Row], dict[str, Any]], limit: int | None) -> None:
        kind, equals = selection
        self.both(lambda transaction: transaction.select(kind, limit=limit, **equals))

    @rule(row=rows, limit=st.none() | st.integers(0, 3))
    def select_after(self, row: Row, limit: int | None) -> None:
        self.both(lambda transaction: transaction.select(type(row), after=key_of(row), limit=limit))

    @rule()
    def commit(self) -> None:
        self.open.close()
        self.begin()

    @rule()
    def undo(self) -> None:
        try:
            with self.open:
                raise Undone
        except Undone:
            self.begin()

    @invariant()
    def same_rows(self) -> None:
        if self.transactions:
            self.both(lambda transaction: [transaction.select(kind) for kind in (Meta, Site, Study, Round, Upload)])

    def teardown(self) -> None:
        self.open.close()
        for store in self.stores:
            store.close()
        shutil.rmtree(self.directory)


Stores.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestStores = Stores.TestCase
