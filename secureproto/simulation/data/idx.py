"""One array of bytes out of an idx file, the format of MNIST and its kin.

Invariants: the header is judged before the data are read, and the data have exactly the length that it says, so a
damaged or cut file is an error and not a shorter set; not more than that is ever unpacked.

Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", section on the file format: two
zero bytes, a type (8: unsigned byte), the number of dimensions, each size in four bytes big-endian, then the data.
"""

import gzip
import zlib
from math import prod
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from secureproto.errors import Misconfigured
from secureproto.regular import open_regular

UNSIGNED_BYTE = 0x08
MAX_BYTES = 2**30  # the largest of the kind, EMNIST by class, has 547 million


def read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """The array of a file, plain or (by its suffix .gz) packed.

    Raises:
        Misconfigured: unreadable, no idx file of bytes with that many dimensions, or of another length than it says.
    """
    try:
        with open_regular(path) as whole, _unpacked(path, whole) as file:
            shape = _shape(path, file.read(4 + 4 * dimensions), dimensions)
            data = file.read(prod(shape) + 1)
    # BadGzipFile is an OSError without strerror
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "its packing is damaged"
        raise Misconfigured(f"{path}: cannot be read: {reason}", hint="fetch it again") from None
    if len(data) != prod(shape):
        more = "more" if len(data) > prod(shape) else "fewer"
        raise Misconfigured(f"{path}: has {more} bytes than its header says ({prod(shape)})", hint="fetch it again")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def _unpacked(path: Path, file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(file, "rb")) if path.suffix == ".gz" else file


def _shape(path: Path, header: bytes, dimensions: int) -> tuple[int, ...]:
    if len(header) != 4 + 4 * dimensions or header[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]):
        raise Misconfigured(f"{path}: not an idx file of bytes in {dimensions} dimensions", hint="fetch it again")
    shape = tuple(int.from_bytes(header[at : at + 4], "big") for at in range(4, len(header), 4))
    if prod(shape) > MAX_BYTES:
        raise Misconfigured(f"{path}: its header says {prod(shape)} bytes; allowed: up to {MAX_BYTES}")
    return shape
