"""The key of the site's hold-out (`secureproto.data.holdout`): made once, private, never replaced.

Invariant: a file that is there is never written again, damaged or not: another key would move records between
training and hold-out.
"""

import secrets
from pathlib import Path

from secureproto.data.holdout import KEY_BYTES
from secureproto.errors import Misconfigured
from secureproto.regular import read_regular
from secureproto_client.durable import replace


def read_or_make_key(path: Path) -> bytes:
    """The site's hold-out key, made at the first call. The caller holds the lock of the site's state.

    Raises:
        Misconfigured: the file is there but is no key.
        Unavailable: the disk will not take a new one.
    """
    if not path.exists():
        replace(path, secrets.token_bytes(KEY_BYTES))
    try:
        key = read_regular(path)
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}", hint="check its owner and mode") from None
    if len(key) != KEY_BYTES:
        raise Misconfigured(
            f"{path}: is not a hold-out key of {KEY_BYTES} bytes",
            hint="restore it from a backup: a new key would move records between training and hold-out",
        )
    return key
