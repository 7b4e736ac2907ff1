"""What one who reaches the ports can make the server do: no fault, no growth, no word about others."""

import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from secureproto.wire import base64url
from secureproto_server.routes.sites import FETCHES_EACH
from support.federation import Federation, federation
from support.raw_tls import raw_connection
from support.sim_site import reason_of
from support.sim_study import SimStudy

pytestmark = pytest.mark.system

NUMBERS = ["9" * 5000, "9" * 30, str(2**63), str(2**53), "1" + "0" * 12, "00", "01", "-1", "1.0", "٣"]
NAMES = ["UPPER", "a_b", "-a", "a-", "a--b", "a" * 64, "a" * 3000, "a.b", "a%2fb"]
DIGESTS = ["0" * 63, "0" * 65, "A" * 64, "x"]


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with federation(tmp_path_factory.mktemp("strangers")) as made:
        made.enrol("alpha")
        made.create_study(SimStudy(quorum=1))
        made.open_rounds()
        yield made


def resident(fed: Federation) -> int:
    """Bytes of memory that the server has."""
    assert fed.process is not None
    return int(Path(f"/proc/{fed.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def paths() -> Iterator[tuple[str, str]]:
    """Methods and paths whose every variable part is odd in turn."""
    for number in NUMBERS:
        yield "GET", f"/v1/roots/{number}"
        yield "GET", f"/v1/studies/small/versions/{number}/shared"
        yield "GET", f"/v1/studies/small/versions/{number}/head"
        yield from _round("small", number)
    for name in NAMES:
        yield "GET", f"/v1/studies/{name}"
        yield from _round(name, "0")
    for digest in DIGESTS:
        yield "PUT", f"/v1/studies/small/rounds/0/body/{digest}"


def _round(study: str, number: str) -> Iterator[tuple[str, str]]:
    base = f"/v1/studies/{study}/rounds/{number}"
    yield "POST", f"{base}/manifest"
    yield "POST", f"{base}/refusal"
    yield "PUT", f"{base}/body/{'0' * 64}"


@pytest.mark.parametrize("who", ["site", "stranger"])
def test_no_path_makes_a_fault(fed: Federation, who: str) -> None:
    site = fed.sites["alpha"]
    client = site.client if who == "site" else site.anonymous
    before = len(fed.log())
    for method, path in paths():
        content = b"x" if method != "GET" else None
        answer = client.request(method, path, content=content, headers={"upload-offset": "0"})
        assert answer.status_code in (400, 404), (answer.status_code, path[:80])
    assert "Traceback" not in fed.log()[before:]


def test_no_path_of_the_admin_port_makes_a_fault(fed: Federation) -> None:
    desk, base = fed.desk, "/v1/admin"
    paths = [f"{base}/studies/small/rounds/{number}" for number in NUMBERS]
    paths += [f"{base}/audit/{number}/1" for number in NUMBERS] + [f"{base}/studies/{name}" for name in NAMES]
    with httpx.Client(verify=desk._tls(), trust_env=False) as client:
        for path in paths:
            answer = client.get(f"https://localhost:{fed.ports['admin']}{path}")
            assert answer.status_code in (400, 404), (answer.status_code, path[:80])
    assert "Traceback" not in fed.log()


def test_a_strangers_body_is_not_read_on_the_admin_port(fed: Federation) -> None:
    before = resident(fed)
    context = ssl.create_default_context(
        cadata=ssl.DER_cert_to_PEM_cert(base64url.decode(fed.sites["alpha"].root.ca))
    )
    head = b"POST /v1/admin/studies HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000000\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", fed.ports["admin"]), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        tls.sendall(head)
        assert tls.recv(4096).startswith(b"HTTP/1.1 401")  # without one byte of the body
        sent = 0
        with pytest.raises(OSError, match=r"."):  # noqa: PT012 - it goes on until the server has had enough
            while (
                sent < 4_000_000_000
            ):  # so slowly that it lasts longer than the server lingers, however fast the machine
                sent += tls.send(b"x" * 1_000_000)
                time.sleep(0.01)
    assert resident(fed) - before < 100_000_000


def test_silent_connections_do_not_keep_a_site_out(fed: Federation) -> None:
    before = len(fed.log())
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", fed.ports["site"]), timeout=30))
        assert fed.sites["alpha"].poll().site == "alpha"
        fresh = httpx.Client(verify=fed.desk._tls(), trust_env=False)
        with fresh:
            assert reason_of(fresh.get(f"https://localhost:{fed.ports['site']}/v1/roots/1")) == "unknown_key"
    assert len(fed.log()) == before


def test_the_log_of_the_process_stays_short_whatever_strangers_ask(fed: Federation) -> None:
    before, asked = len(fed.log()), 50
    for _ in range(asked):
        path = f"/v1/studies/{'a' * 63}/rounds/{'9' * 12}/manifest"
        fed.sites["alpha"].anonymous.post(path, content=b"x")
    lines = [line for line in fed.log()[before:].splitlines() if "secureproto.server.refusals" in line]
    assert len(lines) == asked
    assert all(len(line) < 300 for line in lines)


def test_a_site_that_does_not_read_holds_few_bodies_in_memory(fed: Federation) -> None:
    site = fed.sites["alpha"]
    fed.create_study(SimStudy(name="large", quorum=1, elements=5_000_000))
    get = b"GET /v1/studies/large/versions/0/shared HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        connections = [stack.enter_context(raw_connection(site)) for _ in range(FETCHES_EACH + 3)]
        for connection in connections:
            connection.sendall(get)
        codes = sorted(connection.recv(12) for connection in connections)
        assert codes == [b"HTTP/1.1 200"] * FETCHES_EACH + [b"HTTP/1.1 503"] * 3
    fed.until(lambda: site.client.get("/v1/studies/large/versions/0/shared").status_code == 200)
