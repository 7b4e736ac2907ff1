"""Where a key's passphrase comes from: a file in a credential directory, never an argument or a variable.

Arguments show in the process list and variables are inherited by every child; a file of systemd's
`LoadCredential=` lives in memory, is readable by the one service, and is gone when it stops.
"""

import os
import secrets
from pathlib import Path

from secureproto.crypto.keyfile import read_private, write_once
from secureproto.errors import Misconfigured

DIRECTORY_VARIABLE = "CREDENTIALS_DIRECTORY"  # set by systemd for a service with LoadCredential=
MAX_LENGTH = 1023  # what OpenSSL takes for a PKCS#8 passphrase


def read_passphrase(name: str, directory: Path | None = None) -> bytes:
    """The passphrase in file `name` of `directory`, or of $CREDENTIALS_DIRECTORY; a trailing newline is dropped.

    Raises:
        Misconfigured: no directory, no such file, world-readable, empty, or over 1023 bytes.
    """
    # systemd grants a service access by an ACL, which shows as a group bit: only "other" is refused here
    data = read_private(_directory(name, directory) / name, forbidden=0o007).removesuffix(b"\n").removesuffix(b"\r")
    if not 0 < len(data) <= MAX_LENGTH:
        raise Misconfigured(
            f"the passphrase {name} is empty or over {MAX_LENGTH} bytes", hint="put one line of text in the file"
        )
    return data


def create_passphrase(name: str, directory: Path) -> bytes:
    """Make a random passphrase of 256 bits, write it to file `name` of `directory` (mode 0600), return it.

    Raises:
        Conflict: the file is there already.
        Misconfigured: the directory is missing or cannot be written.
    """
    passphrase = secrets.token_urlsafe(32).encode()
    write_once(directory / name, passphrase + b"\n")
    return passphrase


def _directory(name: str, directory: Path | None) -> Path:
    if directory is not None:
        return directory
    found = os.environ.get(DIRECTORY_VARIABLE)
    if not found:
        raise Misconfigured(
            f"no passphrase for {name}: no credential directory is set",
            hint=f"name the directory in the settings, or run under systemd with LoadCredential={name}:FILE",
        )
    return Path(found)
