"""Sites as real processes against a real server process: enrol, take part, predict."""

import csv
import io
import json
import time
from pathlib import Path

import pytest

from secureproto.learning.choice import KINDS
from support.client_federation import create_study, open_rounds
from support.federation import federation
from support.site_process import ClientSite, ended, terminate, until

pytestmark = pytest.mark.system


def test_two_sites_from_invitation_to_prediction(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        sites = [ClientSite(fed, name) for name in ("cleveland", "hungary")]
        for site in sites:
            site.prepare()
            site.enrol()
        create_study(fed, quorum=2, total=2)
        processes = [site.popen("client", "run", str(site.root), "--until-complete") for site in sites]
        open_rounds(fed, 2)
        for process in processes:
            done = ended(process, 120)
            assert done.code == 0, done.err
        site = sites[0]
        state = site.status()
        study = state["studies"][0]
        chosen = study["chosen"]["model"]
        assert (study["version"], study["final"], study["in_use"]) == (2, True, chosen)
        assert chosen in {"2" if kind == "mixed" else f"2-{kind}" for kind in KINDS}
        assert study["rounds"] == {"done": 2}
        assert set(study["scores"]) == {"0", "1", "2", "2-local", chosen}
        predicted = site.client("predict", "--input", str(site.root / "patients.csv"))
        assert predicted.code == 0, predicted.err
        rows = list(csv.DictReader(io.StringIO(predicted.out)))
        assert [row["id"] for row in rows] == [f"p{i}" for i in range(1, 11)]
        assert all(abs(float(row["p_no"]) + float(row["p_yes"]) - 1) < 1e-5 for row in rows)
        listed = site.run("client", "model", "list", "--site-dir", str(site.root), "-o", "json")
        assert {row["model"] for row in json.loads(listed.out)} == {"0", "1", "2", "2-local", chosen}


def test_a_stop_at_any_moment_of_the_start_is_in_good_order(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        site = ClientSite(fed, "cleveland")
        site.prepare()
        site.enrol()
        for delay in (0.0, 0.005, 0.02, 0.05, 0.1, 0.3):
            process = site.popen("client", "run", str(site.root))
            until(site.paths.pid.exists)
            time.sleep(delay)
            done = terminate(process)
            assert (done.code, "Traceback" in done.err) == (0, False), done.err
            assert not site.paths.pid.exists()


def test_a_running_client_ends_in_good_order(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        site = ClientSite(fed, "cleveland")
        site.prepare()
        site.enrol()
        process = site.popen("client", "run", str(site.root))
        until(lambda: site.paths.pid.exists() and site.status()["last_contact"])
        other = site.client("run", "--once")
        assert (other.code, "another client runs" in other.err) == (7, True)
        assert site.client("stop").code == 0
        done = ended(process)
        assert done.code == 0, done.err
        assert not site.paths.pid.exists()
        again = site.popen("client", "run", str(site.root))
        until(site.paths.pid.exists)
        assert terminate(again).code == 0
