"""Environment variables that set something: a misspelt one must not silently mean the default."""

import os
from collections.abc import Collection

from secureproto.errors import Misconfigured


def require_known(prefix: str, keys: Collection[str], *, separator: str = "__") -> None:
    """Refuse a variable that begins with `prefix` and names no key.

    Raises:
        Misconfigured: naming the variable and what is allowed; never its value.
    """
    for name in sorted(os.environ):
        key = name.removeprefix(prefix).partition(separator)[0].lower()
        if name.startswith(prefix) and key not in keys:
            allowed = ", ".join(prefix + allowed.upper() for allowed in sorted(keys))
            raise Misconfigured(f"environment variable {name}: no such setting", hint=f"allowed: {allowed}")
