"""What the audit log costs: leaves appended to the tree, entries appended and verified.

`python ops/bench/audit_append.py [--leaves 100000]` prints JSON and writes ops/bench/results/audit_append.json.

`tree` hashes ready-made entries into leaves and appends them to a compact range, root at the end; `sha256` hashes the
same entries once each, which no log can do without. Both run in this process, one after the other, and a time is CPU
time, the best of several, so that a busy machine changes little: what counts is `tree_over_sha256`. An append hashes
its entry and, on average, one inner node more; the rest is Python. `entry_appends` also makes the canonical entry and
checks it (all but the database); `entry_verifies` is what `secureproto audit verify` does, with a checkpoint each
hundred entries, reading the export from memory.
"""

import argparse
import io
import json
import os
import platform
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from secureproto.audit import checkpoint as notes
from secureproto.audit import export
from secureproto.audit.checkpoint import Checkpoint, origin_of
from secureproto.audit.entries import Event
from secureproto.audit.log import LogHead
from secureproto.audit.merkle import CompactRange, leaf_hash
from secureproto.audit.verify import verify_records
from secureproto.audit.vocabulary import Action, ClockSource, Detail, Role
from secureproto.crypto.keys import FileSigner

RESULT = Path(__file__).parent / "results" / "audit_append.json"
ORIGIN = origin_of("bench")
REPEATS = 5
GROUP = 100  # entries under one checkpoint


def best(run: Callable[[], object]) -> float:
    """The shortest of several runs, in CPU seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def upload(number: int) -> Event:
    """The commonest entry."""
    return Event(
        actor="cleveland",
        role=Role.SITE,
        action=Action.UPLOAD_ACCEPTED,
        study="heart",
        round=number,
        object_digest=f"{number:064x}",
        policy_digest="d" * 64,
        details={Detail.PROTECTION: "unprotected", Detail.CIPHERTEXT_LENGTH: 104_857_600},
    )


def write(count: int, signer: FileSigner) -> tuple[list[export.Record], float]:
    """A log of `count` entries, and the CPU seconds that its appends took (checkpoints not counted)."""
    events = [upload(number) for number in range(count)]
    head, records, seconds = LogHead(), list[export.Record](), 0.0
    for begin in range(0, count, GROUP):
        start = time.process_time()
        for event in events[begin : begin + GROUP]:
            head, made = head.append(event, time=head.size, clock=ClockSource.MANUAL)
            records.append(export.Logged(made.data, made.leaf))
        seconds += time.process_time() - start
        records.append(export.SignedCheckpoint(notes.sign(Checkpoint(ORIGIN, head.size, head.root), signer)))
    return records, seconds


def measure(count: int) -> dict[str, object]:
    """All the figures at one size."""
    signer = FileSigner(ec.generate_private_key(ec.SECP256R1()))
    records, append_seconds = write(count, signer)
    entries = [record.data for record in records if isinstance(record, export.Logged)]
    file = b"".join(export.lines(records))

    def tree() -> None:
        compact = CompactRange()
        for data in entries:
            compact.append(leaf_hash(data))
        assert compact.size == count
        assert compact.root

    def plain() -> None:
        for data in entries:
            sha256(data).digest()

    def verify() -> None:
        keys = {signer.public.key_id: signer.public}
        assert verify_records(export.read(io.BytesIO(file)), origin=ORIGIN, keys=keys).size == count

    sha_seconds, tree_seconds, verify_seconds = best(plain), best(tree), best(verify)
    return {
        "leaves": count,
        "bytes_per_entry": round(sum(map(len, entries)) / count),
        "sha256_per_second": round(count / sha_seconds),
        "tree_appends_per_second": round(count / tree_seconds),
        "tree_over_sha256": round(tree_seconds / sha_seconds, 2),
        "entry_appends_per_second": round(count / append_seconds),
        "entry_verifies_per_second": round(count / verify_seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--leaves", type=int, default=100_000)
    result = {
        "bench": "audit_append",
        "machine": {"cpus": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()},
        **measure(parser.parse_args().leaves),
    }
    text = json.dumps(result, indent=2)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
