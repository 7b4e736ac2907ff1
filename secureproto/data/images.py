"""Image files as a data source: one folder a class, the folder's name being the label.

Invariants: files are taken in sorted order; an image is decoded, turned upright, brought to the study's size
and channels and mapped to [-1, 1] by itself; a file that does not decode is isolated and named by its path.
Only formats whose decoders are in-process and well worn: never those that start another program.
"""

import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from secureproto.data.arrays import scaled
from secureproto.data.gathering import Gathering
from secureproto.data.holdout import HoldOut
from secureproto.data.settings import ImageFolderSettings
from secureproto.data.source import Loaded
from secureproto.errors import Misconfigured
from secureproto.study.features import BadRecord, BadValue, LabelSchema
from secureproto.study.schema import StudyFile

FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP")
SUFFIXES = {suffix for suffix, form in Image.registered_extensions().items() if form in FORMATS}
MAX_PIXELS = 64_000_000  # 192 MB as RGB; a small file can claim any size

# what Pillow's decoders are known to raise on broken files
_UNDECODABLE = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    OverflowError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)


class ImageFolderSource:
    """Reads the folders below `settings.path`. A DataSource."""

    def __init__(self, settings: ImageFolderSettings, hold_out: HoldOut) -> None:
        self._root = settings.path
        self._hold_out = hold_out

    def load(self, study: StudyFile) -> Loaded:
        """Each image by itself; see `source.DataSource`. Folders of no class of the study are an error, images in no
        folder are bad records; other files beside the folders are nobody's business.
        """
        if study.data.kind != "image":
            raise Misconfigured(f"{self._root}: images in a tabular study", hint="set data.kind to csv or npz")
        gathering = Gathering(study, str(self._root))
        for name in self._in_no_class():
            gathering.isolation.isolate(shown(name), BadRecord("an image beside the folders of the classes"))
        for folder, label in self._folders(LabelSchema(study)):
            for path in image_files(folder):
                name = path.relative_to(self._root).as_posix()
                try:
                    gathering.add(decode(path, study), label, self._hold_out.side(name), record_id=name)
                except BadRecord as error:
                    gathering.isolation.isolate(shown(name), error)
        return gathering.loaded()

    def _in_no_class(self) -> Iterator[str]:
        for path in _entries(self._root):
            if path.suffix.lower() in SUFFIXES and not _is_folder(path):
                yield path.name

    def _folders(self, labels: LabelSchema) -> Iterator[tuple[Path, int]]:
        for folder in _entries(self._root):
            if not _is_folder(folder):
                continue
            try:
                yield folder, labels.index(folder.name)
            except BadValue as error:
                raise Misconfigured(
                    f"{folder}: the folder is no class of the study: {error.message}",
                    hint="rename it, or map it under data.label.values of the study",
                ) from None


def image_files(folder: Path) -> Iterator[Path]:
    """All files below a folder, sorted; hidden ones are not looked at.

    Raises:
        Misconfigured: a link in it leads back to a folder above: every image would be read again and again.
    """
    for entry in _entries(folder):
        if _is_folder(entry):
            here = folder.resolve()
            if entry.resolve() in (here, *here.parents):
                raise Misconfigured(f"{entry}: leads back to a folder above it", hint="remove the link")
            yield from image_files(entry)
        else:
            yield entry


def shown(name: str) -> str:
    """A file's name as it can stand on one line."""
    return name if name.isprintable() else ascii(name)


def decode(path: Path, study: StudyFile) -> NDArray[np.float32]:
    """(channels, height, width) float32 in [-1, 1] of an image file.

    Raises:
        BadRecord: it does not decode, is too large, or has a kind of pixel that is not known here.
        Misconfigured: the study has channels that image files do not.
    """
    if study.model.channels not in (1, 3):
        raise Misconfigured(f"{path}: image files have 1 or 3 channels, and the study {study.model.channels}")
    if not path.is_file():  # a pipe would be waited for
        raise BadRecord("not a file")
    try:
        # Pillow warns of odd metadata and of size: the pixels are what counts, and their number is bounded here
        with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise BadRecord(f"more than {MAX_PIXELS} pixels")
            upright = ImageOps.exif_transpose(image)
            return _pixels(upright, study.model.channels, (study.model.width, study.model.height))
    except _UNDECODABLE:
        raise BadRecord("the image does not decode") from None


def _pixels(image: Image.Image, channels: int, size: tuple[int, int]) -> NDArray[np.float32]:
    if image.mode.startswith("I;16"):  # Pillow would cut 16 bits off at 255 and not scale them
        grey = Image.fromarray(np.asarray(image, dtype=np.float32) / np.float32(257))
        values = np.asarray(grey.resize(size, Image.Resampling.BILINEAR))
        return np.repeat(scaled(values / np.float32(127.5) - np.float32(1))[np.newaxis], channels, axis=0)
    if image.mode in ("I", "F"):
        raise BadRecord("pixels of 32 bits have no public range")
    plain = image.convert("L" if channels == 1 else "RGB").resize(size, Image.Resampling.BILINEAR)
    values = np.asarray(plain)
    return scaled(values[np.newaxis] if channels == 1 else np.moveaxis(values, 2, 0))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:  # the folder above may be listed and not entered
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}", hint="check data.path and rights") from None


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise Misconfigured(f"{folder}: cannot be read: {error.strerror}", hint="check data.path") from None
