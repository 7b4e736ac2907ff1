"""Every blob store keeps the promises of `secureproto_server.storage.blobs`."""

from pathlib import Path

import pytest

from secureproto.errors import Conflict, NotFound, Rejected
from secureproto.wire.reasons import Reason
from secureproto_server.storage.blobs import CHUNK, BlobStore
from secureproto_server.storage.directory_blobs import DirectoryBlobs
from secureproto_server.storage.memory_blobs import MemoryBlobs


def put(blobs: BlobStore, name: str, data: bytes) -> None:
    with blobs.spool(name) as spool:
        spool.write(spool.length, data)
        spool.finish()


def get(blobs: BlobStore, name: str) -> bytes:
    with blobs.open(name) as file:
        return file.read()


class BlobContract:
    """What any blob store must pass; a subclass gives `blobs`, empty, with room for QUOTA bytes."""

    QUOTA = 4 * CHUNK

    def test_what_was_received_is_read_back(self, blobs: BlobStore) -> None:
        put(blobs, "a", b"abc")
        assert get(blobs, "a") == b"abc"
        assert blobs.size("a") == 3
        assert blobs.size("b") is None

    def test_an_unfinished_blob_is_not_there(self, blobs: BlobStore) -> None:
        with blobs.spool("a") as spool:
            spool.write(0, b"abc")
            with pytest.raises(NotFound):
                blobs.open("a")
        assert blobs.size("a") is None

    def test_a_broken_upload_is_resumed_where_it_stopped(self, blobs: BlobStore) -> None:
        with blobs.spool("a") as spool:
            spool.write(0, b"abc")
        with blobs.spool("a") as spool:
            assert spool.length == 3
            spool.write(3, b"def")
            assert b"".join(spool.chunks()) == b"abcdef"
            spool.finish()
        assert get(blobs, "a") == b"abcdef"

    @pytest.mark.parametrize("offset", [0, 2, 4])
    def test_a_piece_anywhere_but_at_the_end_is_conflict(self, blobs: BlobStore, offset: int) -> None:
        with blobs.spool("a") as spool:
            spool.write(0, b"abc")
            with pytest.raises(Conflict, match="3 bytes were received"):
                spool.write(offset, b"x")
            assert b"".join(spool.chunks()) == b"abc"

    def test_large_spools_are_read_in_bounded_chunks(self, blobs: BlobStore) -> None:
        with blobs.spool("a") as spool:
            spool.write(0, bytes(2 * CHUNK + 1))
            assert [len(chunk) for chunk in spool.chunks()] == [CHUNK, CHUNK, 1]

    def test_two_connections_cannot_receive_one_blob(self, blobs: BlobStore) -> None:
        with blobs.spool("a"):
            with pytest.raises(Conflict), blobs.spool("a"):
                pass
            with blobs.spool("b"):
                pass
        with blobs.spool("a"):
            pass

    def test_an_exception_in_the_block_keeps_the_bytes_and_frees_the_name(self, blobs: BlobStore) -> None:
        def breaks() -> None:
            with blobs.spool("a") as spool:
                spool.write(0, b"abc")
                raise KeyError

        with pytest.raises(KeyError):
            breaks()
        with blobs.spool("a") as spool:
            assert spool.length == 3

    def test_discarding_leaves_nothing(self, blobs: BlobStore) -> None:
        with blobs.spool("a") as spool:
            spool.write(0, b"abc")
            spool.discard()
            spool.discard()
            with pytest.raises(ValueError, match="discarded"):
                spool.write(0, b"abc")
        with blobs.spool("a") as spool:
            assert spool.length == 0

    def test_a_finished_spool_cannot_harm_the_blob(self, blobs: BlobStore) -> None:
        with blobs.spool("a") as spool:
            spool.write(0, b"abc")
            spool.finish()
            spool.discard()
            with pytest.raises(ValueError, match="finished"):
                spool.write(3, b"x")
            with pytest.raises(ValueError, match="finished"):
                spool.finish()
        assert get(blobs, "a") == b"abc"

    def test_finishing_again_replaces_the_blob_whole(self, blobs: BlobStore) -> None:
        put(blobs, "a", b"long first")
        put(blobs, "a", b"second")
        assert get(blobs, "a") == b"second"

    def test_an_empty_blob_is_a_blob(self, blobs: BlobStore) -> None:
        with blobs.spool("a") as spool:
            spool.finish()
        assert get(blobs, "a") == b""

    def test_delete_removes_blob_and_spool_and_may_be_repeated(self, blobs: BlobStore) -> None:
        put(blobs, "a", b"abc")
        with blobs.spool("a") as spool:
            spool.write(0, b"next")
        blobs.delete("a")
        blobs.delete("a")
        assert blobs.size("a") is None
        with blobs.spool("a") as spool:
            assert spool.length == 0

    def test_sweep_removes_what_no_row_names_and_no_connection_writes(self, blobs: BlobStore) -> None:
        put(blobs, "kept", b"1")
        put(blobs, "orphan", b"2")
        with blobs.spool("half") as spool:
            spool.write(0, b"3")
        with blobs.spool("busy") as spool:
            spool.write(0, b"4")
            assert blobs.sweep({"kept"}) == ["half", "orphan"]
            spool.finish()
        assert get(blobs, "busy") == b"4"
        assert get(blobs, "kept") == b"1"

    @pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", "A", ".a", "a\n", "a" * 201, "a\0"])
    def test_a_name_cannot_leave_the_store(self, blobs: BlobStore, name: str) -> None:
        for use in (blobs.open, blobs.size, blobs.delete):
            with pytest.raises(ValueError, match="name"):
                use(name)
        with pytest.raises(ValueError, match="name"), blobs.spool(name):
            pass

    def test_the_quota_refuses_the_upload_and_frees_its_room(self, blobs: BlobStore) -> None:
        put(blobs, "a", bytes(self.QUOTA - 10))
        with blobs.spool("b") as spool:
            spool.write(0, bytes(10))
            with pytest.raises(Rejected) as refused:
                spool.write(10, b"x")
            assert refused.value.reason is Reason.QUOTA
        with blobs.spool("b") as spool:
            assert spool.length == 0
            spool.write(0, bytes(10))
            spool.finish()
        blobs.delete("a")
        put(blobs, "c", bytes(self.QUOTA - 10))

    def test_replacing_counts_once(self, blobs: BlobStore) -> None:
        for _ in range(5):
            put(blobs, "a", bytes(self.QUOTA // 2))


class TestMemoryBlobs(BlobContract):
    @pytest.fixture
    def blobs(self) -> BlobStore:
        return MemoryBlobs(quota=self.QUOTA)


class TestDirectoryBlobs(BlobContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> BlobStore:
        return DirectoryBlobs(tmp_path / "state", quota=self.QUOTA)
