"""kill -9 of the server in each phase of a round, and a restart: the same round goes on with the uploads it has, and
what is published is, to the last bit, what an undisturbed run gives (computed here from the same updates)."""

import sqlite3
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from secureproto.clock import SystemClock
from secureproto_server import aggregate, settings
from secureproto_server.phases import Phase
from secureproto_server.startup import started
from support.federation import Federation, federation
from support.raw_tls import put_head, raw_connection
from support.rounds import answer, assert_published, expected
from support.sim_site import SimSite, ask, ok, request
from support.sim_study import Arrays, SimStudy

pytestmark = pytest.mark.system

NAMES = ("alpha", "beta", "gamma")
LARGE = 3_000_000  # elements: 12 MB an upload, so that an aggregation can be met while it runs


def restart(fed: Federation) -> None:
    fed.kill()
    fed.start()


def phase_on_disk(fed: Federation) -> str:
    """The round's phase as the database has it, read beside the server."""
    with sqlite3.connect(f"file:{fed.state / 'server.db'}?mode=ro", uri=True) as connection:
        return str(connection.execute("SELECT phase FROM sp_round ORDER BY round DESC").fetchone()[0])


def begun(fed: Federation, *, elements: int = 1000, quorum: int = 3) -> SimStudy:
    """Three sites and an open round."""
    for name in NAMES:
        fed.enrol(name)
    study = fed.create_study(SimStudy(quorum=quorum, total=1, elements=elements))
    fed.open_rounds()
    return study


def finish(fed: Federation, study: SimStudy, updates: dict[str, Arrays]) -> None:
    """Whoever has not answered does; then everybody has exactly the expected version."""
    for seed, name in enumerate(NAMES):
        if name not in updates:
            updates[name] = answer(fed.sites[name], study, seed)
    fed.until_ended(0)
    result = expected(study, updates)
    for site in fed.sites.values():
        assert_published(site, study, result)
        assert site.release().final


def test_while_a_site_waits_for_approval(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        port = fed.ports["site"]
        site, token = request(fed.desk, port, tmp_path / "alpha", "alpha")
        fed.sites["alpha"] = site  # keeps the port
        fingerprint = ask(site, token).fingerprint
        restart(fed)
        again = ask(site, token)
        assert (again.state, again.fingerprint) == ("pending", fingerprint)


def test_in_collect_after_receipts_and_in_the_middle_of_a_body(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        study = begun(fed, elements=200_000)
        updates = {"alpha": answer(fed.sites["alpha"], study, 0)}
        beta = fed.sites["beta"]
        invitation = beta.invitation()
        updates["beta"] = study.update(1)
        sealed = beta.sealed_update(invitation, updates["beta"], study.model)
        ok(beta.send_manifest(invitation, sealed.manifest.encode()))
        path = f"/v1/studies/small/rounds/0/body/{sealed.digest}"
        with raw_connection(beta) as tls:
            tls.sendall(put_head(path, len(sealed.body)) + sealed.body[:500_000])
            time.sleep(0.3)
            restart(fed)
        assert phase_on_disk(fed) == "collect"
        assert fed.round(0)["submitted"] == ["alpha"]
        offset = ok(beta.send_manifest(invitation, sealed.manifest.encode())).json()["offset"]
        ok(beta.send_body(invitation, sealed.digest, sealed.body[offset:], offset=offset))
        restart(fed)
        assert fed.round(0)["submitted"] == ["alpha", "beta"]
        receipt = ok(beta.send_manifest(invitation, sealed.manifest.encode()))
        assert receipt.status_code == 200
        finish(fed, study, updates)


def test_in_aggregate(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        study = begun(fed, elements=LARGE)
        updates = {name: answer(fed.sites[name], study, seed) for seed, name in enumerate(NAMES)}
        fed.until(lambda: phase_on_disk(fed) != "collect")
        fed.kill()
        assert phase_on_disk(fed) == "aggregate"
        fed.start()
        time.sleep(0.05)
        fed.kill()  # once more, wherever it is by now
        fed.start()
        finish(fed, study, updates)


def test_in_publish(tmp_path: Path) -> None:
    """The time in `publish` is too short to meet from outside, so the work up to it is done here, then left."""
    with federation(tmp_path) as fed:
        study = begun(fed, elements=LARGE)
        updates = {name: answer(fed.sites[name], study, seed) for seed, name in enumerate(NAMES)}
        fed.until(lambda: phase_on_disk(fed) != "collect")
        fed.kill()
        values = settings.load(fed.directory / "server")
        with started(values, SystemClock(), public_url="https://localhost:1", accept_forward=False) as services:
            assert aggregate.run(services, "small", 0) is Phase.PUBLISH
        assert phase_on_disk(fed) == "publish"
        fed.start()
        finish(fed, study, updates)
        actions = [entry["action"] for entry in fed.audit()]
        assert actions.count("model_published") == 2  # the initial model and this one, each once
        assert actions.count("model_released") == 1


def persist(site: SimSite, study: SimStudy, update: Arrays, done: threading.Event) -> None:
    """A site that seals once and sends the same bytes until it has its receipt, whatever becomes of the server."""
    invitation = sealed = None
    while not done.is_set():
        try:
            invitation = invitation or site.invitation()
            sealed = sealed or site.sealed_update(invitation, update, study.model)
            if site.send(invitation, sealed).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)


def test_killed_again_and_again_at_any_moment(tmp_path: Path) -> None:
    moments = np.random.default_rng(20261129)
    with federation(tmp_path) as fed:
        study = begun(fed, elements=400_000)
        updates = {name: study.update(seed) for seed, name in enumerate(NAMES)}
        done = threading.Event()
        threads = [threading.Thread(target=persist, args=(fed.sites[n], study, updates[n], done)) for n in NAMES]
        for thread in threads:
            thread.start()
        try:
            for _ in range(6):
                time.sleep(float(moments.uniform(0.0, 0.25)))
                restart(fed)
            for thread in threads:
                thread.join(20)
        finally:
            done.set()
        finish(fed, study, updates)
        sequences = [entry["sequence"] for entry in fed.audit()]
        assert sequences == list(range(len(sequences)))
        accepted = [e["actor"] for e in fed.audit() if e["action"] == "upload_accepted"]
        assert sorted(accepted) == list(NAMES)
