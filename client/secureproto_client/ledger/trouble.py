"""What SQLite says of a ledger file, as an error of the right family with one line that names what to do."""

import sqlite3
from pathlib import Path

from secureproto.errors import IntegrityBroken, Misconfigured, SecureProtoError, Unavailable

RESTORE = "put back the newest copy, or recover it from the server's mirror (client ledger recover); never start anew"
FREE = "free space or find what is wrong with the disk, then try again; nothing was charged"
BUSY = "end what else has the file open (a backup, a database tool), then try again"
WRITABLE = "give the file to the client's user, on a disk that can be written"


def explained(path: Path, error: sqlite3.Error) -> SecureProtoError:
    """The error to raise for one of SQLite's.

    IntegrityBroken: what is in the file does not hold. Misconfigured: we may not write it. Unavailable: the rest.
    """
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ", "SQLITE_CONSTRAINT")):
        return IntegrityBroken(f"the ledger {path} is damaged: {error}", hint=RESTORE)
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return Misconfigured(f"the ledger {path} cannot be written: {error}", hint=WRITABLE)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Unavailable(f"the ledger {path} is locked by another program", hint=BUSY)
    if name.startswith("SQLITE_ERROR"):  # a table or a column that is not as the schema says
        return IntegrityBroken(f"the ledger {path} is not as it was made: {error}", hint=RESTORE)
    return Unavailable(f"cannot use the ledger {path}: {error}", hint=FREE)
