"""One array out of a NumPy archive, without the loader that can run code.

Invariants: the header is read and judged before a byte of data is: a plain dtype of the kinds asked for, no
objects, no structures, and exactly the length that the shape says. Nothing of pickle is ever reached.

Source of the format: NEP 1, "A simple file format for NumPy arrays", versions 1.0 and 2.0.
"""

import ast
import re
import zipfile
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from secureproto.errors import Misconfigured
from secureproto.regular import open_regular

MAGIC = b"\x93NUMPY"
LENGTH_BYTES = {b"\x01\x00": 2, b"\x02\x00": 4}  # version → size of the header's length
MAX_HEADER = 4096  # a plain array's is 128 bytes; literal_eval is not for more
MAX_CODE_POINT = 0x10FFFF

_DESCR = re.compile(r"[<>|]([fiub])[0-9]{1,2}|[<>]U[1-9][0-9]{0,5}")
_KINDS = {"f": "floats", "u": "unsigned integers", "i": "integers", "U": "texts", "b": "booleans"}


@dataclass(frozen=True)
class Header:
    """What the header of an array says."""

    dtype: np.dtype[Any]
    fortran: bool
    shape: tuple[int, ...]


def read_arrays(path: Path, kinds: dict[str, str]) -> dict[str, NDArray[Any]]:
    """The arrays named in `kinds` (name → the dtype kinds that are taken, such as "fu").

    Raises:
        Misconfigured: no archive, an array missing, of another kind, with objects, or of a wrong length.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return {name: _read(archive, f"{name}.npy", f"{path}: array {name}", kinds[name]) for name in kinds}
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}", hint="check data.path and rights") from None
    # RuntimeError: a compression unknown here, or an encrypted member
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise Misconfigured(f"{path}: not a NumPy archive, or damaged", hint="write it with numpy.savez") from None


def _read(archive: zipfile.ZipFile, member: str, name: str, allowed: str) -> NDArray[Any]:
    if member not in archive.namelist():
        raise Misconfigured(f"{name}: not in the archive", hint="numpy.savez(path, x=..., y=...), or set its name")
    with archive.open(member) as file:
        header = _header(file, name, allowed)
        length = prod(header.shape) * header.dtype.itemsize
        if length != archive.getinfo(member).file_size - file.tell():
            raise Misconfigured(f"{name}: not as long as its header says")
        data = bytearray(file.read())
    if header.dtype.kind == "U":
        _check_text(data, header.dtype, name)
    flat: NDArray[Any] = np.frombuffer(data, dtype=header.dtype)
    try:
        return flat.reshape(header.shape, order="F" if header.fortran else "C")
    except ValueError:  # no entries, in more or longer axes than an array can have
        raise _no_header(name) from None


def _header(file: IO[bytes], name: str, allowed: str) -> Header:
    start = file.read(len(MAGIC) + 2)
    size = LENGTH_BYTES.get(start[len(MAGIC) :], 0) if start.startswith(MAGIC) else 0
    length = int.from_bytes(file.read(size), "little")
    if not 0 < length <= MAX_HEADER:
        raise _no_header(name)
    try:
        table = ast.literal_eval(file.read(length).decode("ascii"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise _no_header(name) from None
    match table:
        case {"descr": descr, "fortran_order": bool(fortran), "shape": tuple(shape)} if len(table) == 3:
            if all(type(side) is int and side >= 0 for side in shape):
                return Header(_dtype(descr, name, allowed), fortran, shape)
    raise _no_header(name)


def _dtype(descr: object, name: str, allowed: str) -> np.dtype[Any]:
    if isinstance(descr, str) and _DESCR.fullmatch(descr) and descr[1] in allowed:
        try:
            return np.dtype(descr)
        except TypeError:  # a size that no machine has
            raise _no_header(name) from None
    words = " or ".join(_KINDS[kind] for kind in allowed)
    raise Misconfigured(f"{name}: its dtype is not one of those allowed: {words}")


def _check_text(data: bytearray, dtype: np.dtype[Any], name: str) -> None:
    """NumPy makes texts of any four bytes and fails when they are looked at."""
    points = np.frombuffer(data, dtype=np.dtype(f"{dtype.str[0]}u4"))
    if points.size and points.max() > MAX_CODE_POINT:
        raise Misconfigured(f"{name}: its bytes are no text")


def _no_header(name: str) -> Misconfigured:
    return Misconfigured(f"{name}: its header is not of the npy format 1.0 or 2.0", hint="write it with numpy.savez")
