"""Blobs in a directory: what only files have (restart, full disk, links, modes)."""

import errno
import os
from pathlib import Path

import pytest

from secureproto.errors import Unavailable
from secureproto_server.storage.directory_blobs import DirectoryBlobs


class Disk:
    """The write call of a disk with room for so many bytes; like a real one it writes what still fits."""

    def __init__(self, room: int, code: int = errno.ENOSPC) -> None:
        self.room = room
        self.code = code

    def write(self, file: int, data: memoryview) -> int:
        count = min(self.room, len(data))
        if count == 0:
            raise OSError(self.code, os.strerror(self.code))
        self.room -= count
        return os.write(file, data[:count])


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_spools_and_blobs_outlive_the_process(tmp_path: Path) -> None:
    with DirectoryBlobs(tmp_path).spool("a") as spool:
        spool.write(0, b"abc")
    again = DirectoryBlobs(tmp_path)
    with again.spool("a") as spool:
        assert spool.length == 3
        spool.finish()
    with DirectoryBlobs(tmp_path).open("a") as file:
        assert file.read() == b"abc"


def test_the_quota_counts_what_an_earlier_process_left(tmp_path: Path) -> None:
    with DirectoryBlobs(tmp_path).spool("a") as spool:
        spool.write(0, bytes(8))
    blobs = DirectoryBlobs(tmp_path, quota=10)
    with blobs.spool("b") as spool, pytest.raises(Exception, match="used up"):
        spool.write(0, bytes(3))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_refuses_the_upload_and_leaves_no_half_file(tmp_path: Path, code: int) -> None:
    disk = Disk(5, code)
    blobs = DirectoryBlobs(tmp_path, quota=100, write=disk.write)
    with blobs.spool("a") as spool, pytest.raises(Unavailable, match="disk is full"):
        spool.write(0, b"12345678")
    assert files(tmp_path) == []
    disk.room = 100
    with blobs.spool("b") as spool:
        spool.write(0, bytes(100))  # the quota forgot what the full disk refused
        spool.finish()


def test_another_failure_of_the_disk_is_unavailable_too(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path, write=Disk(0, errno.EIO).write)
    with blobs.spool("a") as spool, pytest.raises(Unavailable, match="EIO"):
        spool.write(0, b"1")


def test_short_writes_are_completed(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path, write=lambda file, data: os.write(file, data[:3]))
    with blobs.spool("a") as spool:
        spool.write(0, b"0123456789")
        spool.finish()
    with blobs.open("a") as file:
        assert file.read() == b"0123456789"


def test_a_failed_fsync_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(file: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    blobs = DirectoryBlobs(tmp_path)
    with blobs.spool("a") as spool:
        spool.write(0, b"abc")
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(Unavailable, match="full"):
            spool.finish()
    assert files(tmp_path) == []


def test_bytes_are_durable_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def noted_fsync(file: int) -> None:
        steps.append("directory" if Path(f"/proc/self/fd/{file}").is_dir() else "file")
        fsync(file)

    def noted_rename(path: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    with DirectoryBlobs(tmp_path).spool("a") as spool:
        spool.write(0, b"abc")
        spool.finish()
    assert steps == ["file", "rename", "directory", "directory"]


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path / "state")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (tmp_path / "state" / "blobs" / "a").symlink_to(secret)
    (tmp_path / "state" / "spool" / "b").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic"):
        blobs.open("a")
    with pytest.raises(Unavailable), blobs.spool("b"):
        pass
    assert secret.read_bytes() == b"secret"


def test_only_the_server_can_read(tmp_path: Path) -> None:
    with DirectoryBlobs(tmp_path / "state").spool("a") as spool:
        spool.finish()
    assert (tmp_path / "state" / "blobs" / "a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state" / "spool").stat().st_mode & 0o777 == 0o700


def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    (tmp_path / "blobs" / "LOST+FOUND").write_bytes(b"x")
    assert blobs.sweep(()) == []
    assert files(tmp_path) == ["blobs/LOST+FOUND"]
