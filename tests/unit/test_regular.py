"""What is a regular file is read; all else is refused with a reason, and never waited for."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from secureproto.regular import is_there, open_regular, read_regular


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


REFUSED: list[tuple[Callable[[Path], object], str]] = [
    (Path.mkdir, "Is a directory"),
    (os.mkfifo, "Not a regular file"),
    (listening, "Not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "Not a regular file"),
    (lambda path: path.symlink_to("/dev/full"), "Not a regular file"),
    (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
    (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    (lambda path: None, "No such file or directory"),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("make", "reason"), REFUSED)
def test_what_is_no_regular_file(make: Callable[[Path], object], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    make(path)
    for read in (open_regular, read_regular):
        with pytest.raises(OSError, match=reason) as caught:
            read(path)
        assert str(caught.value.filename) == str(path)


@pytest.mark.timeout(20)
def test_what_takes_the_place_of_a_file_between_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.touch()
    seen = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(Path, "stat", lambda _: seen)
    with pytest.raises(OSError, match="Not a regular file"):
        open_regular(path)


def test_a_file_and_a_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "b").symlink_to("a")
    assert read_regular(tmp_path / "a") == read_regular(tmp_path / "b") == b"text"
    with open_regular(tmp_path / "b") as file:
        assert (file.read(2), file.mode) == (b"te", "rb")


def test_whether_anything_is_there(tmp_path: Path) -> None:
    assert is_there(tmp_path)
    assert not is_there(tmp_path / "a")
    assert not is_there(tmp_path / (300 * "a"))
