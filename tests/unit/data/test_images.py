"""Image files and torchvision's sets: sorted, scaled, isolated by path, nothing fetched unasked."""

import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from secureproto.data import images
from secureproto.data.factory import open_source
from secureproto.data.images import decode, image_files
from secureproto.data.settings import ImageFolderSettings, TorchvisionSettings
from secureproto.data.source import Isolated, Loaded
from secureproto.errors import Misconfigured, Unavailable
from secureproto.study.features import BadRecord
from secureproto.study.file import load
from support.study_toml import dumps, image_table, put, tabular_table

GREY = load(dumps(image_table()))
COLOUR = load(dumps(put(image_table(), "model.channels", 3)))


def read(path: Path, share: float = 0) -> Loaded:
    settings = ImageFolderSettings(kind="image_folder", path=path, hold_out=share)
    return open_source(settings, key=bytes(32)).load(GREY)


def save(path: Path, value: int, size: tuple[int, int] = (6, 8), mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)


def test_folders_are_classes_and_files_are_sorted(tmp_path: Path) -> None:
    save(tmp_path / "yes" / "b.png", 255)
    save(tmp_path / "no" / "2.png", 51)
    save(tmp_path / "no" / "1.bmp", 0)
    save(tmp_path / "no" / "deep" / "3.png", 204)
    save(tmp_path / "no" / ".hidden.png", 9)
    (tmp_path / "readme.txt").write_text("beside the folders")
    loaded = read(tmp_path)
    assert loaded.train.x.shape == (4, 1, 8, 6)
    assert loaded.train.x[:, 0, 0, 0].tolist() == pytest.approx([-1, -0.6, 0.6, 1])
    assert loaded.train.y.tolist() == [0, 0, 0, 1]


def test_an_image_beside_the_folders_is_a_bad_record(tmp_path: Path) -> None:
    save(tmp_path / "no" / "1.png", 0)
    save(tmp_path / "lost.PNG", 0)
    (tmp_path / "also.jpeg").touch()
    loaded = read(tmp_path)
    assert len(loaded.train) == 1
    assert loaded.isolated == {Isolated.BAD: 2}
    assert loaded.notes == tuple(
        f"{name}: an image beside the folders of the classes" for name in ("also.jpeg", "lost.PNG")
    )


def test_what_does_not_decode_is_isolated_and_named(tmp_path: Path) -> None:
    save(tmp_path / "no" / "good.png", 7)
    whole = (tmp_path / "no" / "good.png").read_bytes()
    (tmp_path / "no" / "cut.png").write_bytes(whole[:-30])
    (tmp_path / "no" / "text.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (tmp_path / "no" / "empty.jpg").touch()
    (tmp_path / "yes").mkdir()
    loaded = read(tmp_path)
    assert len(loaded.train) == 1
    assert loaded.isolated == {Isolated.BAD: 3}
    names = ("no/cut.png", "no/empty.jpg", "no/text.png")
    assert loaded.notes == tuple(f"{name}: the image does not decode" for name in names)


def test_formats_that_are_not_named_are_not_decoded(tmp_path: Path) -> None:
    save(tmp_path / "a.gif", 7)
    with pytest.raises(BadRecord, match="does not decode"):
        decode(tmp_path / "a.gif", GREY)


def test_files_of_odd_names_and_kinds(tmp_path: Path) -> None:
    save(tmp_path / "no" / "two\nlines.png", 7)
    os.mkfifo(tmp_path / "no" / "pipe.png")
    (tmp_path / "no" / "two\nlines.txt").touch()
    (tmp_path / "no" / "z.png").symlink_to("nowhere")
    loaded = read(tmp_path, 0.0001)
    assert len(loaded.train) == 1
    assert loaded.notes == (
        "no/pipe.png: not a file",
        r"'no/two\nlines.txt': the image does not decode",
        "no/z.png: not a file",
    )


def test_every_damage_is_a_bad_record_or_an_image(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1)
    picture = Image.fromarray(numbers.integers(0, 256, (8, 6, 3), dtype=np.uint8))
    for form in ("PNG", "JPEG", "TIFF", "BMP", "WEBP"):
        buffer = io.BytesIO()
        picture.save(buffer, form)
        for _ in range(40):
            broken = bytearray(buffer.getvalue())
            broken[numbers.integers(len(broken))] ^= int(numbers.integers(1, 256))
            path = tmp_path / f"broken.{form}"
            path.write_bytes(bytes(broken))
            try:
                found = decode(path, COLOUR)
            except BadRecord:
                continue
            assert found.shape == (3, 8, 6)
            assert np.abs(found).max() <= 1


def test_size_channels_and_depth(tmp_path: Path) -> None:
    red = tmp_path / "red.png"
    Image.new("RGB", (60, 80), (255, 0, 0)).save(red)
    assert decode(red, COLOUR)[:, 3, 3].tolist() == [1, -1, -1]
    assert decode(red, GREY).shape == (1, 8, 6)
    deep = tmp_path / "deep.png"
    Image.fromarray(np.full((16, 12), 65_535, np.uint16)).save(deep)
    assert np.allclose(decode(deep, COLOUR), 1)
    Image.fromarray(np.full((8, 6), 13_107, np.uint16)).save(deep)
    assert np.allclose(decode(deep, GREY), -0.6)
    real = tmp_path / "real.tiff"
    Image.fromarray(np.ones((8, 6), np.float32)).save(real)
    with pytest.raises(BadRecord, match="no public range"):
        decode(real, GREY)


def test_an_image_is_turned_upright(tmp_path: Path) -> None:
    picture = Image.new("L", (8, 6))
    picture.paste(255, (0, 0, 4, 6))  # white on the left; turned by 90° clockwise it is above
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(tmp_path / "turned.png", exif=exif)
    found = decode(tmp_path / "turned.png", GREY)[0]
    assert (found[0] == 1).all()
    assert (found[-1] == -1).all()


def test_a_huge_image_is_never_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.bmp"
    save(path, 1)
    header = bytearray(path.read_bytes())
    header[18:26] = struct.pack("<ii", 100_000, 100_000)  # width and height of a BMP
    path.write_bytes(bytes(header))
    with pytest.raises(BadRecord):
        decode(path, GREY)
    monkeypatch.setattr(images, "MAX_PIXELS", 47)
    save(path, 1)
    with pytest.raises(BadRecord, match="more than 47 pixels"):
        decode(path, GREY)


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read: No such file"):
        read(tmp_path / "none")
    with pytest.raises(Misconfigured, match="no record to train on"):
        read(tmp_path)
    save(tmp_path / "perhaps" / "1.png", 1)
    with pytest.raises(Misconfigured, match=r"the folder is no class of the study.*allowed: no, yes"):
        read(tmp_path)
    settings = ImageFolderSettings(kind="image_folder", path=tmp_path)
    with pytest.raises(Misconfigured, match="images in a tabular study"):
        open_source(settings, key=bytes(32)).load(load(dumps(tabular_table())))
    four = load(dumps(put(image_table(), "model.channels", 4)))
    with pytest.raises(Misconfigured, match="1 or 3 channels, and the study 4"):
        decode(tmp_path / "perhaps" / "1.png", four)


def idx(path: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    """The format of MNIST's files."""
    path.write_bytes(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def mnist(root: Path) -> None:
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, count in (("train", 5), ("t10k", 2)):
        pictures = np.zeros((count, 28, 28), np.uint8)
        pictures[0, 0, 0] = 255
        idx(raw / f"{name}-images-idx3-ubyte", pictures)
        idx(raw / f"{name}-labels-idx1-ubyte", np.arange(count, dtype=np.uint8))


def digits(classes: int = 10, side: int = 28) -> bytes:
    table = put(image_table(), "classes", [str(digit) for digit in range(classes)])
    model = {"name": "cnn", "embedding_width": 8, "channels": 1, "height": side, "width": side}
    return dumps(put(table, "model", model))


def test_a_torchvision_set_has_its_own_hold_out(tmp_path: Path) -> None:
    mnist(tmp_path)
    source = open_source(TorchvisionSettings(kind="torchvision", name="MNIST", root=tmp_path), key=bytes(32))
    loaded = source.load(load(digits()))
    assert (loaded.train.x.shape, loaded.test.x.shape) == ((5, 1, 28, 28), (2, 1, 28, 28))
    assert loaded.train.y.tolist() == [0, 1, 2, 3, 4]
    assert loaded.train.x[0, 0, 0, :2].tolist() == [1, -1]
    fewer = source.load(load(digits(classes=3)))
    assert (len(fewer.train), fewer.isolated) == (3, {Isolated.BAD: 2})
    with pytest.raises(Misconfigured, match=r"images of \(1, 28, 28\); the study has \(1, 20, 20\)"):
        source.load(load(digits(side=20)))


def test_nothing_is_fetched_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision import datasets

    asked: list[str] = []

    def no_network(url: str, *args: object, **kwargs: object) -> None:
        asked.append(url)
        raise OSError("no network in a test")

    monkeypatch.setattr(datasets.mnist, "download_and_extract_archive", no_network)
    settings = TorchvisionSettings(kind="torchvision", name="FashionMNIST", root=tmp_path / "none")
    with pytest.raises(Misconfigured, match="not found under"):
        open_source(settings, key=bytes(32)).load(load(digits()))
    assert asked == []
    with pytest.raises(Unavailable, match="could not be fetched"):
        open_source(settings.model_copy(update={"download": True}), key=bytes(32)).load(load(digits()))
    assert asked


def test_a_link_that_leads_back_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "loop").symlink_to("..")
    with pytest.raises(Misconfigured, match=r"cat/loop: leads back to a folder above it"):
        list(image_files(tmp_path / "cat"))
    (tmp_path / "cat" / "loop").unlink()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.png").write_bytes(b"")
    (tmp_path / "cat" / "more").symlink_to("../more")
    assert [path.name for path in image_files(tmp_path / "cat")] == ["a.png"]
