"""The models a run ended with, as safetensors files: `shared`, and for each site `SITE.personal` and `SITE.kept`.

What each holds is the method's own matter (its docstring says what `shared`, `personal` and `kept` are). A site's
name is quoted as in an address; of one that is too long for a file's name, its beginning and a digest of it.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from safetensors.numpy import save

from secureproto.simulation.disk import make_directory, write_atomically
from secureproto.simulation.run import KEPT, PERSONAL
from secureproto.simulation.store import SHARED, RunStore

LONGEST = 200  # bytes; file systems take 255, and what follows the name has some
DIGITS = 16  # of the digest


def save_models(store: RunStore, directory: Path, sites: Sequence[str]) -> None:
    """Write what is there of a run; a method without a model writes nothing. Raises Unavailable: the disk refuses."""
    files = {"shared": store.get(SHARED)}
    for site in sites:
        name = _file_name(site)
        files[f"{name}.personal"] = store.get(PERSONAL + site)
        files[f"{name}.kept"] = store.get(KEPT + site)
    for name, arrays in files.items():
        if arrays:
            make_directory(directory)
            write_atomically(directory / f"{name}.safetensors", save(arrays))


def _file_name(site: str) -> str:
    name = quote(site, safe="")
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - DIGITS - 1]}-{sha256(site.encode()).hexdigest()[:DIGITS]}"
