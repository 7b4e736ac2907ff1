"""Seal and open of 256 MiB against SHA-256 plus AES-256-GCM of the same bytes: rates, ratio, memory.

`python ops/bench/seal_open.py [--mib 256]` prints JSON and writes ops/bench/results/seal_open.json. Exits with 1
when sealing or opening is under 0.6 of the plain rate, or takes 64 MiB or more above the idle process.

Both sides hash: the sealer for the manifest, the receiver to compare with it. The plain side hashes and encrypts
(decrypts) the same chunks with one key and counted nonces: the least that any such format does. All is in one run and
in one thread; each figure is the best of several, interleaved, for the machine is shared.
"""

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from secureproto.crypto.keys import PublicKey
from secureproto.crypto.sealing import Opener, Sealer

MIB = 2**20
CHUNK = MIB
LEAST_RATIO = 0.6
MOST_MEMORY_MIB = 64
ROUNDS = 3
CORE = b'{"bench":"seal_open"}'


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "seal_open.json")
    arguments = parser.parse_args()
    figures = measure(arguments.mib)
    text = json.dumps(figures, indent=2)
    print(text)
    arguments.out.write_text(text + "\n")
    return 0 if figures["passed"] else 1


def measure(mib: int) -> dict[str, object]:
    """The figures for a body of so many MiB."""
    private = ec.generate_private_key(ec.SECP256R1())
    chunk = os.urandom(CHUNK)
    idle = _resident_mib()
    with tempfile.TemporaryFile() as spool:
        wrapped = _fill(spool.fileno(), mib, chunk, private)
        _open(spool.fileno(), wrapped, private)
        memory = _peak_mib() - idle  # before the plain side runs, so that none of it is counted
        runs: dict[str, Callable[[], None]] = {
            "seal": lambda: _seal(mib, chunk, private),
            "plain_encrypt": lambda: _plain_encrypt(mib, chunk),
            "open": lambda: _open(spool.fileno(), wrapped, private),
            "plain_decrypt": lambda: _plain_decrypt(mib, chunk),
        }
        seconds = {name: min(times) for name, times in _interleaved(runs).items()}
    seal = seconds["plain_encrypt"] / seconds["seal"]
    opened = seconds["plain_decrypt"] / seconds["open"]
    return {
        "mib": mib,
        "mib_per_second": {name: round(mib / value) for name, value in seconds.items()},
        "ratio_seal": round(seal, 3),
        "ratio_open": round(opened, 3),
        "least_ratio": LEAST_RATIO,
        "memory_mib_above_idle": round(memory, 1),
        "most_memory_mib": MOST_MEMORY_MIB,
        "passed": min(seal, opened) >= LEAST_RATIO and memory < MOST_MEMORY_MIB,
        "machine": {"python": platform.python_version(), "arch": platform.machine(), "cpus": os.cpu_count()},
    }


def _interleaved(runs: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


def _seal(mib: int, chunk: bytes, private: ec.EllipticCurvePrivateKey) -> None:
    sealer = Sealer(CORE, [PublicKey.of(private.public_key())])
    for _ in range(mib):
        sealer.update(chunk)
    sealer.finalize()
    assert len(sealer.ciphertext_digest) == 32


def _open(spool: int, wrapped: bytes, private: ec.EllipticCurvePrivateKey) -> None:
    """As the server does it: read, hash, decrypt, in one pass over the file."""
    os.lseek(spool, 0, os.SEEK_SET)
    opener, digest = Opener(CORE, wrapped, private), sha256()
    while data := os.read(spool, CHUNK):
        digest.update(data)
        opener.update(data)
    opener.finalize()


def _plain_encrypt(mib: int, chunk: bytes) -> None:
    cipher, digest = AESGCM(bytes(32)), sha256()
    for number in range(mib):
        digest.update(cipher.encrypt(number.to_bytes(12, "big"), chunk, None))


def _plain_decrypt(mib: int, chunk: bytes) -> None:
    # one chunk made beforehand and decrypted again and again: the work is the same, the disk is left out
    cipher, digest = AESGCM(bytes(32)), sha256()
    sealed = cipher.encrypt(bytes(12), chunk, None)
    for _ in range(mib):
        digest.update(sealed)
        cipher.decrypt(bytes(12), sealed, None)


def _fill(spool: int, mib: int, chunk: bytes, private: ec.EllipticCurvePrivateKey) -> bytes:
    sealer = Sealer(CORE, [PublicKey.of(private.public_key())])
    for _ in range(mib):
        os.write(spool, sealer.update(chunk))
    os.write(spool, sealer.finalize())
    return sealer.wrapped[0]


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MIB


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
