"""Each step that can fail on the way to the server is named, with evidence and advice, over real sockets."""

from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from secureproto.errors import Misconfigured, Unavailable
from secureproto_client.transport.diagnosis import diagnose, verdict
from secureproto_client.transport.endpoint import Endpoint, Proxy
from secureproto_client.transport.https import HttpsTransport
from secureproto_client.transport.memory import Request
from secureproto_client.transport.patience import LONGEST_PAUSE, Patience, pause
from secureproto_client.transport.seam import Reply
from support.https_peer import ConnectProxy, HttpsPeer


def answer(_: Request) -> Reply:
    return Reply(404, b"")


def test_all_is_well(tmp_path: Path) -> None:
    with HttpsPeer(tmp_path, answer).running() as peer:
        findings = diagnose(peer.endpoint(certificate=True))
    assert [finding.step for finding in findings] == ["DNS", "TCP", "TLS", "HTTP"]
    assert "every step works" in verdict(findings)


def test_a_name_that_does_not_resolve() -> None:
    line = verdict(diagnose(Endpoint("https://no-such-host.invalid:8443", b"")))
    assert line.startswith("DNS: FAILED: no-such-host.invalid: the name does not resolve")


def test_nobody_listens(tmp_path: Path) -> None:
    peer = HttpsPeer(tmp_path, answer)
    with peer.running():
        pass
    line = verdict(diagnose(peer.endpoint()))
    assert line.startswith(f"TCP: FAILED: localhost:{peer.port}: Connection refused")


def test_an_interceptor_is_named(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = HttpsPeer(tmp_path / "other", answer, ca_key=31)
    with HttpsPeer(tmp_path, answer).running() as peer:
        line = verdict(diagnose(replace(peer.endpoint(), ca=other.ca_der)))
    assert line.startswith("TLS: FAILED: ")
    assert "presented by: CN=root CA,O=heart" in line
    assert "interception" in line


def test_a_certificate_for_another_name(tmp_path: Path) -> None:
    with HttpsPeer(tmp_path, answer, hosts=("other.example",)).running() as peer:
        line = verdict(diagnose(peer.endpoint()))
    assert "not a name in the server's certificate" in line


def test_a_server_certificate_that_ran_out(tmp_path: Path) -> None:
    with HttpsPeer(tmp_path, answer, born=1_700_000_000).running() as peer:
        line = verdict(diagnose(peer.endpoint()))
    assert "expired" in line
    assert "clock" in line


def test_the_way_through_a_proxy_with_a_login(tmp_path: Path) -> None:
    login = b64encode(b"site:pass").decode()
    with HttpsPeer(tmp_path, answer).running() as peer, ConnectProxy(login=login).running() as proxy:
        endpoint = peer.endpoint(proxy=Proxy(f"http://127.0.0.1:{proxy.port}", user="site", password="pass"))
        transport = HttpsTransport(endpoint)
        assert transport.get("/a").status == 404
        transport.close()
        assert proxy.connected == [f"localhost:{peer.port}"]
        findings = diagnose(endpoint)
    assert [finding.step for finding in findings] == ["proxy DNS", "proxy TCP", "proxy", "TLS", "HTTP"]
    assert all(finding.ok for finding in findings)


@pytest.mark.parametrize(
    ("status", "advice"), [(407, "proxy.credentials"), (403, "forbids this address"), (418, "ask the proxy's owner")]
)
def test_a_proxy_that_refuses(tmp_path: Path, status: int, advice: str) -> None:
    with HttpsPeer(tmp_path, answer).running() as peer, ConnectProxy(answer=status).running() as proxy:
        endpoint = peer.endpoint(proxy=Proxy(f"http://127.0.0.1:{proxy.port}"))
        line = verdict(diagnose(endpoint))
        transport = HttpsTransport(endpoint)
        with pytest.raises(Unavailable):
            transport.get("/a")
        transport.close()
    assert f"the proxy answered {status} to CONNECT localhost:{peer.port}" in line
    assert advice in line


def test_keys_that_do_not_belong_together(tmp_path: Path) -> None:
    peer = HttpsPeer(tmp_path, answer)
    certificate = replace(peer.certificate(), key=peer.key)
    with pytest.raises(Misconfigured, match="certificate or key cannot be used"):
        Endpoint("https://localhost", peer.ca_der, certificate).context()


def test_a_proxy_ca_that_is_no_file() -> None:
    with pytest.raises(Misconfigured, match=r"proxy\.ca_file"):
        Proxy("https://proxy.example", Path("/no/such/file")).context()


class Failing:
    """An action that fails so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> str:
        self.left -= 1
        if self.left >= 0:
            raise Unavailable("no answer")
        return "done"


def test_patience_goes_on_and_tells_at_the_third_failure(caplog: pytest.LogCaptureFixture) -> None:
    slept: list[float] = []
    diagnosed: list[str] = []

    def diagnose_() -> str:
        diagnosed.append("once")
        return "TCP: FAILED"

    patience = Patience(slept.append, diagnose_)
    assert patience.persist(Failing(4)) == "done"
    assert len(slept) == 4
    assert len(diagnosed) == 1
    assert "server unreachable after 3 tries" in caplog.text


def test_patience_with_an_end_gives_the_diagnosis() -> None:
    with pytest.raises(Unavailable, match="after 3 tries: TCP: FAILED"):
        Patience(lambda _: None, lambda: "TCP: FAILED", tries=3).persist(Failing(9))


def test_other_errors_are_not_tried_again() -> None:
    def broken() -> None:
        raise Misconfigured("no")

    with pytest.raises(Misconfigured):
        Patience(lambda _: None, str).persist(broken)


def test_pauses_double_to_a_minute() -> None:
    assert 0.75 <= pause(1) <= 1.0
    assert 3.0 <= pause(3) <= 4.0
    assert pause(100) <= LONGEST_PAUSE
