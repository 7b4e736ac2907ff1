"""The first `client.toml` and the passphrase of a new site. Neither is ever written over."""

import os
from pathlib import Path

from secureproto.crypto.keyfile import write_once
from secureproto.crypto.passphrase import DIRECTORY_VARIABLE, create_passphrase, read_passphrase
from secureproto.errors import Conflict, Misconfigured
from secureproto_client.durable import make_directory
from secureproto_client.identity import PASSPHRASE
from secureproto_client.paths import SitePaths

TEMPLATE = """\
# Settings of this site. Yours to edit: no program writes to it again. Relative paths start at this file.
{credentials}
# Where this site's records lie: kind csv, npz, image_folder, torchvision or factory.
# [data]
# kind = "csv"
# path = "patients.csv"
# id_column = "patient"       # decides by a keyed hash which records are held out
# hold_out = 0.2

# Nothing is trained for a study that is not accepted here. Read the study first; `client status` shows its digest.
# [studies.NAME]
# accept = true
# digest = "..."

[training]
threads = 1

# [proxy]
# url = "http://proxy.example:3128"
# credentials = "proxy-login" # a file with one line user:password
"""


def write_first(paths: SitePaths, credentials: Path | None) -> bool:
    """Write `client.toml` if there is none; says whether it did."""
    if paths.settings.exists():
        return False
    line = f'credentials = "{_quoted(credentials.resolve())}"\n' if credentials else ""
    write_once(paths.settings, TEMPLATE.format(credentials=line).encode())
    return True


def passphrase(directory: Path | None) -> tuple[bytes, Path | None]:
    """The passphrase of the site's keys, and the file it was just made in, if it was.

    Raises:
        Misconfigured: no credential directory is named, or its file cannot be used.
    """
    given = directory or (Path(os.environ[DIRECTORY_VARIABLE]) if os.environ.get(DIRECTORY_VARIABLE) else None)
    if given is None or (given / PASSPHRASE).exists():
        return read_passphrase(PASSPHRASE, given), None
    try:
        return create_passphrase(PASSPHRASE, make_directory(given)), given / PASSPHRASE
    except Conflict:  # another site of this host made it at the same moment
        return read_passphrase(PASSPHRASE, given), None


def _quoted(path: Path) -> str:
    text = str(path)
    if any(character in text for character in '"\\') or not text.isprintable():
        raise Misconfigured("the credential directory's path has a quote or a control character")
    return text
