"""Every store keeps the promises of `secureproto_server.storage.store`.

PostgreSQL takes part when SECUREPROTO_TEST_POSTGRES names a database whose tables may be dropped.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from secureproto.errors import Conflict
from secureproto_server.storage.memory import MemoryStore
from secureproto_server.storage.migrate import upgrade
from secureproto_server.storage.records import (
    AuditEntry,
    Enrolment,
    EnrolmentState,
    Meta,
    Participant,
    ParticipantState,
    Round,
    Site,
    SiteState,
    Study,
    Upload,
    UploadState,
)
from secureproto_server.storage.sql import SqlStore
from secureproto_server.storage.store import Store
from support.rows import a_round, a_site, a_study, a_token, an_upload, drop_everything

POSTGRES = os.environ.get("SECUREPROTO_TEST_POSTGRES", "")


class StoreContract:
    """What any store must pass; a subclass gives the fixture `store`, empty."""

    def test_a_row_comes_back_as_it_was(self, store: Store) -> None:
        site, study, round_, upload = a_site(), a_study(), a_round(), an_upload(manifest=bytes(range(256)))
        with store.transaction("write") as tx:
            for row in (site, study, round_, upload):
                tx.insert(row)
        with store.transaction("read") as tx:
            assert tx.get(Site, "site-a") == site
            assert tx.get(Round, "heart", 0) == round_
            assert tx.get(Upload, "heart", 0, "site-a") == upload
            assert tx.get(Upload, "heart", 1, "site-a") is None
            found = tx.get(Upload, "heart", 0, "site-a")
            assert found is not None
            assert found.state is UploadState.RESERVED

    def test_large_integers_and_odd_text_survive(self, store: Store) -> None:
        entry = AuditEntry(2**53 - 1, b"")
        fact = Meta("é ' \" % ; --", "line\nline \U0001f600")
        with store.transaction("write") as tx:
            tx.insert(entry)
            tx.insert(fact)
        with store.transaction("read") as tx:
            assert tx.get(AuditEntry, 2**53 - 1) == entry
            assert tx.get(Meta, "é ' \" % ; --") == fact

    def test_select_filters_and_sorts_by_key_in_code_points(self, store: Store) -> None:
        with store.transaction("write") as tx:
            for key in ("b", "a", "Z", "a-b", "ab", "é"):
                tx.insert(Meta(key, "x" if key != "b" else "y"))
        with store.transaction("read") as tx:
            assert [row.key for row in tx.select(Meta)] == ["Z", "a", "a-b", "ab", "b", "é"]
            assert [row.key for row in tx.select(Meta, value="y")] == ["b"]

    def test_select_matches_none_and_states(self, store: Store) -> None:
        with store.transaction("write") as tx:
            tx.insert(a_site("site-a", last_seen=None))
            tx.insert(a_site("site-b", last_seen=5, state=SiteState.SUSPENDED))
        with store.transaction("read") as tx:
            assert [row.site for row in tx.select(Site, last_seen=None)] == ["site-a"]
            assert [row.site for row in tx.select(Site, state=SiteState.SUSPENDED)] == ["site-b"]

    def test_select_in_pages_covers_each_row_once(self, store: Store) -> None:
        with store.transaction("write") as tx:
            tx.insert(a_study())
            for number in range(7):
                tx.insert(a_round(round=number))
        seen: list[int] = []
        with store.transaction("read") as tx:
            page = tx.select(Round, limit=3)
            while page:
                seen += [row.round for row in page]
                page = tx.select(Round, after=("heart", page[-1].round), limit=3)
        assert seen == list(range(7))

    def test_after_compares_the_whole_key(self, store: Store) -> None:
        with store.transaction("write") as tx:
            for study in ("a", "b"):
                tx.insert(a_study(study))
                for number in range(2):
                    tx.insert(a_round(study=study, round=number))
            page = tx.select(Round, after=("a", 1))
            assert [(row.study, row.round) for row in page] == [("b", 0), ("b", 1)]

    def test_a_taken_key_is_conflict_and_the_transaction_goes_on(self, store: Store) -> None:
        with store.transaction("first") as tx:
            tx.insert(Meta("epoch", "1"))
        with store.transaction("second") as tx:
            with pytest.raises(Conflict, match="epoch"):
                tx.insert(Meta("epoch", "2"))
            tx.insert(Meta("other", "kept"))
        with store.transaction("read") as tx:
            assert tx.select(Meta) == [Meta("epoch", "1"), Meta("other", "kept")]

    def test_put_adds_and_replaces(self, store: Store) -> None:
        with store.transaction("write") as tx:
            tx.put(Meta("epoch", "1"))
            tx.put(Meta("epoch", "2"))
        with store.transaction("read") as tx:
            assert tx.select(Meta) == [Meta("epoch", "2")]

    def test_put_replaces_a_row_that_others_refer_to(self, store: Store) -> None:
        with store.transaction("write") as tx:
            tx.insert(a_study())
            tx.insert(a_round())
            tx.put(replace(a_study(), version=9))
            assert len(tx.select(Round)) == 1
            found = tx.get(Study, "heart")
            assert found is not None
            assert found.version == 9

    def test_a_key_belongs_to_one_site(self, store: Store) -> None:
        with store.transaction("write") as tx:
            tx.insert(a_site("site-a"))
            stolen = replace(a_site("site-b"), signing_key_id=a_site("site-a").signing_key_id)
            with pytest.raises(Conflict, match="signing_key_id"):
                tx.insert(stolen)
            with pytest.raises(Conflict, match="signing_key_id"):
                tx.put(stolen)
            tx.put(replace(a_site("site-a"), last_seen=7))
            assert [row.site for row in tx.select(Site)] == ["site-a"]

    def test_delete_says_whether_there_was_one(self, store: Store) -> None:
        with store.transaction("write") as tx:
            tx.insert(Meta("a", "1"))
            assert tx.delete(Meta, "a")
            assert not tx.delete(Meta, "a")
            assert tx.select(Meta) == []

    def test_a_missing_parent_is_misuse(self, store: Store) -> None:
        orphans = (
            a_round(),
            Enrolment("site-a", "no-token", "f", b"", EnrolmentState.PENDING, 1, None),
            Participant("heart", 0, "site-a", ParticipantState.INVITED, ""),
        )
        with store.transaction("write") as tx:
            for row in orphans:
                with pytest.raises(ValueError, match="does not exist"):
                    tx.insert(row)
                with pytest.raises(ValueError, match="does not exist"):
                    tx.put(row)

    def test_a_parent_with_children_stays(self, store: Store) -> None:
        with store.transaction("write") as tx:
            for row in (a_site(), a_study(), a_round(), an_upload()):
                tx.insert(row)
            for kind, key in ((Study, ("heart",)), (Round, ("heart", 0)), (Site, ("site-a",))):
                with pytest.raises(ValueError, match="still refers"):
                    tx.delete(kind, *key)
            assert tx.delete(Upload, "heart", 0, "site-a")
            assert tx.delete(Round, "heart", 0)
            assert tx.delete(Study, "heart")

    def test_an_exception_rolls_everything_back_and_goes_on(self, store: Store) -> None:
        with store.transaction("before") as tx:
            tx.insert(Meta("kept", "1"))
            tx.insert(Meta("gone", "1"))

        def fails() -> None:
            with store.transaction("fails") as tx:
                tx.insert(a_token())
                tx.put(Meta("kept", "2"))
                tx.put(Meta("kept", "3"))
                tx.delete(Meta, "gone")
                raise KeyError

        with pytest.raises(KeyError):
            fails()
        with store.transaction("after") as tx:
            assert tx.select(Meta) == [Meta("gone", "1"), Meta("kept", "1")]
            assert tx.get(type(a_token()), a_token().token_id) is None

    def test_a_transaction_inside_another_is_misuse(self, store: Store) -> None:
        with (
            store.transaction("outer"),
            pytest.raises(ValueError, match="'inner' inside transaction 'outer'"),
            store.transaction("inner"),
        ):
            pass
        with store.transaction("next") as tx:
            assert tx.select(Meta) == []

    def test_an_ended_transaction_is_misuse(self, store: Store) -> None:
        with store.transaction("short") as tx:
            pass
        with pytest.raises(ValueError, match="ended"):
            tx.get(Meta, "a")
        with pytest.raises(ValueError, match="ended"):
            tx.put(Meta("a", "1"))

    def test_a_wrong_key_or_field_is_misuse(self, store: Store) -> None:
        with store.transaction("misuse") as tx:
            for call in (
                lambda: tx.get(Round, "heart"),
                lambda: tx.delete(Round, "heart"),
                lambda: tx.select(Round, after=("heart",)),
                lambda: tx.select(Round, colour="red"),
            ):
                with pytest.raises(ValueError, match="Round"):
                    call()

    def test_threads_take_turns_and_lose_nothing(self, store: Store) -> None:
        with store.transaction("begin") as tx:
            tx.insert(Meta("count", "0"))

        def count() -> None:
            for _ in range(10):
                with store.transaction("count") as tx:
                    now = tx.get(Meta, "count")
                    assert now is not None
                    tx.put(Meta("count", str(int(now.value) + 1)))

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.transaction("read") as tx:
            assert tx.get(Meta, "count") == Meta("count", "40")


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = MemoryStore()
        yield store
        store.close()


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        url = f"sqlite:///{tmp_path / 'state.db'}"
        upgrade(url)
        store = SqlStore(url)
        yield store
        store.close()


@pytest.mark.skipif(not POSTGRES, reason="SECUREPROTO_TEST_POSTGRES is not set")
class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        drop_everything(POSTGRES)
        upgrade(POSTGRES)
        store = SqlStore(POSTGRES)
        yield store
        store.close()
