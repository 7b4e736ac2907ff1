"""The committed vectors: reading them, and making them again.

`python -m support.vectors` (in tests/) writes all of them anew; a test compares.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support import sealing_vectors, wire_vectors

ROOT = Path(__file__).resolve().parent.parent / "vectors"
Vector = dict[str, Any]


def made() -> dict[str, str]:
    """Every vector file's name and text, as the second form of the format makes it."""
    return {name: json.dumps(vector, indent=1, ensure_ascii=False) + "\n" for name, vector in _all()}


def load(directory: str) -> list[Vector]:
    """The vectors of one directory under tests/vectors, by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / directory).glob("*.json"))]


def _all() -> Iterator[tuple[str, Vector]]:
    yield from sealing_vectors.sealed()
    yield from sealing_vectors.public_keys()
    yield from sealing_vectors.envelopes()
    yield from wire_vectors.bodies()
    yield from wire_vectors.layouts()
    yield from wire_vectors.canonical_forms()


def write() -> None:
    """Write all vector files."""
    for name, text in made().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
