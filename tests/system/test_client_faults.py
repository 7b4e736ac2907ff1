"""Real site processes, killed, misled and cut off, against a real server process."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from secureproto.clock import Clock, ManualClock, SystemClock
from secureproto.crypto.certificates import Authority, client_certificate
from secureproto.crypto.keys import PublicKey, load_private
from secureproto.crypto.passphrase import read_passphrase
from secureproto.errors import Rejected
from secureproto_client import certificates
from secureproto_client.agent import Agent
from secureproto_client.opening import open_site
from support.client_federation import create_study, one_site, open_rounds
from support.federation import Federation, federation
from support.site_process import ClientSite, ended

pytestmark = pytest.mark.system


def accepted(fed: Federation) -> list[int]:
    """Rounds of the uploads that the server's log says it took."""
    return [entry["round"] for entry in fed.audit() if entry["action"] == "upload_accepted"]


def test_killed_after_every_move_of_the_journal(tmp_path: Path) -> None:
    with one_site(tmp_path, total=2) as (fed, site):
        open_rounds(fed, 2)
        dying = ClientSite(fed, site.name, module="support.dying_program")
        for move in ("start", "seal", "send", "finish"):
            process = dying.popen("client", "run", str(site.root), "--until-complete", DIE_AFTER=move)
            assert ended(process).code == -signal.SIGKILL
        done = site.client("run", "--until-complete")
        assert done.code == 0, done.err
        assert site.status()["studies"][0]["rounds"] == {"done": 2}
        assert accepted(fed) == [0, 1]


def test_an_unreachable_server_gets_a_diagnosis(tmp_path: Path) -> None:
    with one_site(tmp_path) as (fed, site):
        port = fed.ports["site"]
        fed.stop()
        done = site.client("run", "--once")
        assert done.code == 3
        assert f"server unreachable after 3 tries: TCP: FAILED: localhost:{port}: Connection refused" in done.err


def test_a_site_that_was_off_for_a_week_comes_back(tmp_path: Path) -> None:
    with one_site(tmp_path) as (fed, site):
        week_ago = int(SystemClock().now()) - 7 * 86_400
        site.paths.certificate.write_bytes(certificate_of(fed, site, week_ago))
        assert certificates.expires(site.paths) < SystemClock().now()
        done = site.client("run", "--once")
        assert done.code == 0, done.err
        assert "TLS certificate renewed" in done.err
        assert certificates.expires(site.paths) > SystemClock().now()


def certificate_of(fed: Federation, site: ClientSite, now: int) -> bytes:
    """A chain for the site as the server issued it at that time."""
    server, secret = fed.directory / "server", read_passphrase("server", fed.credentials)
    chain = x509.load_pem_x509_certificate((server / "intermediate.pem").read_bytes())
    issuer = Authority(chain, load_private(server / "intermediate.key", secret))
    key = load_private(site.paths.tls_key, read_passphrase("site", fed.credentials)).public_key()
    leaf = client_certificate(issuer, PublicKey.of(key), "testbed", site.name, now=now)
    return leaf.public_bytes(Encoding.PEM) + chain.public_bytes(Encoding.PEM)


@pytest.mark.parametrize("off", [-601 - 60, 601 + 60])
def test_a_clock_ten_minutes_off_is_told(tmp_path: Path, off: int) -> None:
    with one_site(tmp_path) as (_, site):
        clock: Clock = ManualClock(SystemClock().now() + off)
        with (
            open_site(site.paths, clock=clock, sleep=sleepless(), tries=1) as opened,
            pytest.raises(Rejected, match="clock is off by more than ten minutes"),
        ):
            Agent(opened, sleepless()).step(wait=0)


def sleepless() -> Callable[[float], None]:
    return lambda _: None


def test_a_study_that_is_not_accepted_is_declined(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        site = ClientSite(fed, "cleveland")
        site.prepare(settings="")
        site.enrol()
        create_study(fed, quorum=1, total=1)
        open_rounds(fed, 1)
        done = site.client("run", "--once")
        assert done.code == 0, done.err
        assert "study small is not accepted at this site; its digest is " in done.err
        assert "declined: study_not_accepted" in done.err
        assert fed.desk.get("studies/small/rounds/0", meaning="look")["phase"] == "quorum_missed"


def test_a_model_that_the_site_does_not_allow_is_declined(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        site = ClientSite(fed, "cleveland")
        site.prepare()
        site.enrol()
        create_study(fed, quorum=1, total=1, model={"name": "support.tiny_model:factory", "embedding_width": 4})
        open_rounds(fed, 1)
        done = site.client("run", "--once")
        assert done.code == 0, done.err
        assert "model support.tiny_model:factory: this site does not allow it" in done.err
        assert "declined: model_not_allowed" in done.err


def test_a_rehearsal_sends_nothing(tmp_path: Path) -> None:
    with one_site(tmp_path) as (fed, site):
        open_rounds(fed, 1)
        done = site.client("run", "--rehearse", "-o", "json")
        assert done.code == 0, done.err
        assert '"upload_bytes": 1256' in done.out
        assert accepted(fed) == []
        assert list(site.paths.outbox.iterdir()) == []
        assert site.status()["studies"][0]["rounds"] == {}
