"""Aggregating 10 and 40 sealed uploads of 100 MiB: time per byte flat, memory that does not grow with the sites.

`python ops/bench/aggregate_uploads.py [--sites 10 40] [--repeats 3]` prints JSON and writes
ops/bench/results/aggregate_uploads.json. Needs 6 GB below the temporary directory, which it empties. Exits with 1
when time per byte differs by more than 15 %, when a run takes over 2.5 model sizes above the idle process, or when
the result is not, to the last bit, what whole arrays in NumPy give.

The model is 100 MiB in float32, the wire's dtype; "model size" here is the same model in float64, in which the server
sums: 200 MiB. Each upload is received as the server receives it (manifest, body, decrypting pass, receipt) but for
the socket; four bodies are shared out among the sites, each sealed anew by its own site. Measured is the server's own
`aggregate.run` on its own state directory, in a fresh process each time: sealed blob on the disk, decrypt, stream,
accumulate, mix, seal the new version. `aggregate_…` is up to the round's result and is what must be flat;
`run_…` has the sealing and publishing of the new version in it, which costs the same for any number of sites. Times
are CPU seconds, the best of several runs, taken in turn. `resident` counts from /proc/self/status.
"""

import argparse
import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from numpy.typing import NDArray

from secureproto.clock import SystemClock, seconds
from secureproto.crypto.certificates import client_certificate
from secureproto.crypto.envelope import sign
from secureproto.crypto.keys import FileSigner, PublicKey, load_signer
from secureproto.crypto.passphrase import read_passphrase
from secureproto.crypto.sealing import Sealer, sign_manifest
from secureproto.simulation.heart.hospitals import study_path
from secureproto.study import file as study_file
from secureproto.wire import base64url, layouts, tensors
from secureproto.wire.messages import UNPROTECTED, ModelSchema, StudyDescriptor, TensorEntry, UploadCore
from secureproto_server import aggregate, creation, receive, releases, roots, rounds, studies, vault
from secureproto_server.founding import Charter, found
from secureproto_server.phases import Phase
from secureproto_server.services import Services
from secureproto_server.settings import load
from secureproto_server.startup import started
from secureproto_server.storage.records import Site, SiteState, Study

STUDY, CLASSES, WIDTH = "heart", 2, 16
TENSORS, SIDE = 25, 1024  # 25 matrices of 4 MiB: 100 MiB in float32
MODEL_MIB = TENSORS * SIDE * SIDE * 8 / 2**20  # in float64
BODIES = 4
FLAT, MOST_SIZES = 0.15, 2.5
Arrays = dict[str, NDArray[Any]]


def main() -> int:
    """Prepare, measure in turn, judge, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sites", type=int, nargs=2, default=[10, 40])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read by NumPy when it is loaded: start again with it
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OPENBLAS_NUM_THREADS": "1"})  # noqa: S606  # our own command line
    few, many = arguments.sites
    with tempfile.TemporaryDirectory(prefix="aggregate-uploads-") as scratch:
        places = {count: Path(scratch) / str(count) for count in (few, many)}
        for count, place in places.items():
            child("prepare", place, count)
        found_: dict[int, list[dict[str, Any]]] = {count: [] for count in places}
        for _ in range(arguments.repeats):
            for count, place in places.items():
                shutil.copyfile(place / "server.db", place / "federation/server/state/server.db")
                found_[count].append(child("measure", place, count))
    runs = [best(count, results) for count, results in found_.items()]
    ratio = runs[1]["aggregate_ns_per_byte"] / runs[0]["aggregate_ns_per_byte"]
    report = {
        "bench": "aggregate_uploads",
        "upload_mib_float32": MODEL_MIB / 2,
        "model_mib_float64": MODEL_MIB,
        "runs": runs,
        "time_per_byte_ratio": round(ratio, 3),
        "run_time_per_byte_ratio": round(runs[1]["run_ns_per_byte"] / runs[0]["run_ns_per_byte"], 3),
        "most_deviation": FLAT,
        "most_model_sizes": MOST_SIZES,
        "passed": abs(ratio - 1) <= FLAT
        and all(run["peak_model_sizes"] <= MOST_SIZES and run["exact"] for run in runs),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__},
    }
    text = json.dumps(report, indent=2)
    print(text)
    (Path(__file__).parent / "results" / "aggregate_uploads.json").write_text(text + "\n", encoding="utf-8")
    return 0 if report["passed"] else 1


def child(verb: str, place: Path, count: int) -> Any:
    """One step in a process of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", f"import aggregate_uploads as a; a.{verb}({str(place)!r}, {count})"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def best(count: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    """The shortest times and the highest peak of several runs at one size."""
    size = results[0]["ciphertext_bytes"]
    shortest = {key: min(r[key] for r in results) for key in ("aggregate_seconds", "run_seconds", "run_wall_seconds")}
    peak = max(r["peak_mib"] - r["idle_mib"] for r in results)
    return {
        "sites": count,
        "ciphertext_bytes": size,
        **{key: round(value, 3) for key, value in shortest.items()},
        "aggregate_ns_per_byte": round(shortest["aggregate_seconds"] / size * 1e9, 3),
        "run_ns_per_byte": round(shortest["run_seconds"] / size * 1e9, 3),
        "idle_mib": round(results[0]["idle_mib"], 1),
        "peak_mib_above_idle": round(peak, 1),
        "peak_model_sizes": round(peak / MODEL_MIB, 2),
        "exact": all(r["exact"] for r in results),
    }


@dataclass(frozen=True)
class Peer:
    """A site with its keys; `number` seeds what it uploads."""

    name: str
    number: int
    tls: ec.EllipticCurvePrivateKey
    signer: FileSigner
    hpke: PublicKey

    @classmethod
    def make(cls, number: int) -> "Peer":
        tls, signing, hpke = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        return cls(f"site-{number:02d}", number, tls, FileSigner(signing), PublicKey.of(hpke.public_key()))

    def row(self, now: int) -> Site:
        tls, signing = PublicKey.of(self.tls.public_key()), self.signer.public
        ids = (signing.key_id, self.hpke.key_id, tls.key_id)
        return Site(self.name, SiteState.ACTIVE, *ids, signing.b64, self.hpke.b64, tls.b64, now, None)


def prepare(directory: str, count: int) -> None:
    """A server's state with a round that every site has answered; a copy of its database beside it."""
    place = Path(directory)
    found(place / "federation", Charter("bench", ("localhost",), "alice", "Bench"), place / "keys", SystemClock())
    bodies = [extractor(number) for number in range(BODIES)]
    with server(place) as services:
        peers = [Peer.make(number) for number in range(count)]
        with services.store.transaction("enrol sites") as tx:
            person = roots.in_force(tx).people[0]
            for peer in peers:
                tx.insert(peer.row(seconds(services.clock)))
        operator = load_signer(
            place / "federation/operator/operator.key", read_passphrase("operator", place / "keys")
        )
        study, shared, head = descriptor(count, bodies[0])
        creation.create(services, person, creation.parts(sign(study, operator), shared, head))
        rounds.want(services, person, study=STUDY, rounds=1)
        for peer in peers:
            upload(services, peer, study, bodies[peer.number % BODIES])
    shutil.copyfile(place / "federation/server/state/server.db", place / "server.db")
    print("{}")


@contextmanager
def server(place: Path) -> Iterator[Services]:
    """The server's own parts on the state directory, as its process makes them; without ports."""
    settings = load(place / "federation/server")
    with started(settings, SystemClock(), public_url="https://localhost", accept_forward=False) as services:
        yield services


def schema() -> ModelSchema:
    """The model: 100 MiB of extractor, a small head."""
    return ModelSchema(
        classes=CLASSES,
        embedding_width=WIDTH,
        extractor=tuple(TensorEntry(name=f"layer{n:02d}", dtype="F32", shape=(SIDE, SIDE)) for n in range(TENSORS)),
        head=(TensorEntry(name="weight", dtype="F32", shape=(CLASSES, WIDTH)),),
        reports_loss=False,
    )


def extractor(number: int) -> Arrays:
    """One of the bodies, the same whenever it is asked for."""
    generator = np.random.default_rng(number)
    names = [f"extractor.layer{n:02d}" for n in range(TENSORS)]
    return {name: generator.standard_normal((SIDE, SIDE), np.float32) for name in names}


def counts(number: int) -> NDArray[np.float64]:
    """How many records of each class a site says it has."""
    return np.random.default_rng(number).integers(1, 500, CLASSES).astype(np.float64)


def descriptor(count: int, body: Arrays) -> tuple[StudyDescriptor, bytes, bytes]:
    """The heart study for so many sites and the large model, with its first weights."""
    text = study_path().read_text(encoding="utf-8")
    data = text.replace("quorum = 3", f"quorum = {count}").replace('deadline = "60s"', 'deadline = "12h"').encode()
    model = schema()
    absent = {"prototypes": np.zeros((CLASSES, WIDTH)), "prototype_age": np.full(CLASSES, -1, np.int64)}
    head = {"head.weight": np.zeros((CLASSES, WIDTH), np.float32)}
    parts = [
        b"".join(tensors.encode(layout(model), arrays))
        for layout, arrays in ((layouts.shared_schema, {**absent, **body}), (layouts.head_schema, head))
    ]
    study = StudyDescriptor(
        federation="bench",
        study=STUDY,
        file=base64url.encode(data),
        study_digest=study_file.digest(data),
        model=model,
        schema_digest=model.digest(),
        initial_shared=sha256(parts[0]).hexdigest(),
        initial_head=sha256(parts[1]).hexdigest(),
        created=seconds(SystemClock()),
    )
    return study, parts[0], parts[1]


def upload(services: Services, peer: Peer, study: StudyDescriptor, body: Arrays) -> None:
    """One site's upload, sealed by it and received by the server."""
    now, layout = seconds(services.clock), layouts.upload_schema(study.model)
    generator, mine = np.random.default_rng(1000 + peer.number), counts(peer.number)
    sums = np.abs(generator.standard_normal((CLASSES, WIDTH))) * mine[:, None]
    head = generator.standard_normal((CLASSES, WIDTH), np.float32)
    arrays = {"prototypes": np.column_stack([sums, mine]), "head.weight": head, **body}
    core = upload_core(services, peer, study, layout.plaintext_length, now)
    sealer = Sealer(core.canonical(), [services.identity.hpke_public])
    chunks = [sealer.update(chunk) for chunk in tensors.encode(layout, arrays)]
    chunks.append(sealer.finalize())
    manifest = sign_manifest(sealer, peer.signer)
    public = PublicKey.of(peer.tls.public_key())
    leaf = client_certificate(services.identity.issuer, public, "bench", peer.name, now=now, seconds=3600)
    admitted = receive.accept_manifest(
        services, STUDY, 0, certificate=leaf.public_bytes(Encoding.DER), data=manifest.encode()
    )
    with services.blobs.spool(admitted.upload.blob) as spool:
        receiving, offset = receive.Body(services, admitted, spool), 0
        for chunk in chunks:
            receiving.write(offset, chunk)
            offset += len(chunk)
        receiving.finish()


def upload_core(services: Services, peer: Peer, study: StudyDescriptor, length: int, now: int) -> UploadCore:
    """What the upload says of itself."""
    return UploadCore(
        suite="p256",
        federation="bench",
        epoch=services.epoch,
        study=STUDY,
        round=0,
        attempt=1,
        study_digest=study.study_digest,
        schema_digest=study.schema_digest,
        sender=peer.name,
        sender_key=peer.signer.public.key_id,
        recipient_key=services.identity.hpke_public.key_id,
        upload_id=secrets.token_hex(16),
        issued=now,
        expires=now + 3600,
        policy_digest=study.study_digest,
        receipt=UNPROTECTED,
        ledger_head=sha256(b"").hexdigest(),
        plaintext_length=length,
    )


def measure(directory: str, count: int) -> None:
    """The aggregation of the round, timed; then its result compared with whole arrays."""
    place, spent = Path(directory), list[float]()
    original = aggregate._aggregate

    def timed(services: Services, work: aggregate.Work) -> Any:
        begun = time.process_time()
        result = original(services, work)
        spent.append(time.process_time() - begun)
        return result

    with server(place) as services:
        idle = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark counts from here
        begun, wall = time.process_time(), time.perf_counter()
        with patch.object(aggregate, "_aggregate", timed):
            phase = aggregate.run(services, STUDY, 0)
        run_seconds, run_wall = time.process_time() - begun, time.perf_counter() - wall
        peak = resident("VmHWM")
        assert phase is Phase.PUBLISH, phase
        aggregate.complete(services, STUDY, 0)
        exact, size = as_numpy_has_it(services, count), sum(blob_sizes(services, count))
    result = {"aggregate_seconds": spent[0], "run_seconds": run_seconds, "run_wall_seconds": run_wall}
    print(json.dumps({**result, "idle_mib": idle, "peak_mib": peak, "exact": exact, "ciphertext_bytes": size}))


def blob_sizes(services: Services, count: int) -> Iterator[int]:
    """Bytes of each stored upload."""
    for number in range(count):
        yield services.blobs.size(f"upload.{STUDY}.0.site-{number:02d}") or 0


def as_numpy_has_it(services: Services, count: int) -> bool:
    """Whether the first and the last tensor published are the mean, summed in the order of the sites' names."""
    with services.store.transaction("read version") as tx:
        row, published = tx.get(Study, STUDY), releases.require_published(tx, STUDY, 1)
        assert row is not None
    plan = studies.PLANS.of(row)
    arrays = vault.arrays(plan.shared_schema, vault.open_chunks(services, published.blob, published.manifest))
    bodies = [extractor(number) for number in range(BODIES)]
    ends = ("extractor.layer00", f"extractor.layer{TENSORS - 1:02d}")
    return all(np.array_equal(arrays[name], mean(bodies, name, count)) for name in ends)


def mean(bodies: list[Arrays], name: str, count: int) -> NDArray[np.float32]:
    """Σ n_i φ_i / Σ n_i in float64, then as the wire has it."""
    total, weights = np.zeros((SIDE, SIDE)), [float(counts(number).sum()) for number in range(count)]
    for number, weight in enumerate(weights):
        total += bodies[number % BODIES][name].astype(np.float64) * weight
    return (total / sum(weights)).astype(np.float32)


def resident(key: str) -> float:
    """VmRSS or VmHWM of this process in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return int(values[key].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
