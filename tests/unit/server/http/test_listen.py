"""Several ports in one process: real addresses, one end, one line when a port is taken."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from secureproto.errors import Misconfigured
from secureproto_server.http.guard import Guard
from secureproto_server.http.listen import Port, address_of, bind
from support.listening import HOST, Raw, Seen, echo, serving

GUARD = Guard(hosts=frozenset({"localhost"}))
GET = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"

RUN = """
import asyncio
from secureproto_server.http.guard import Guard
from secureproto_server.http.listen import Port, bind, serve, stop_on_signals

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})

async def main():
    stopping = asyncio.Event()
    guard = Guard(hosts=frozenset({"localhost"}))
    ports = [Port(name, bind(name, "127.0.0.1", 0), app, guard) for name in ("site", "admin")]
    with stop_on_signals(stopping):
        await serve(ports, stopping=stopping, started=lambda found: print(found["site"][1], flush=True))
    print("ended in order", flush=True)

asyncio.run(main())
"""


def test_each_port_has_its_own_application_and_real_address() -> None:
    seen = {name: Seen() for name in ("site", "admin", "metrics", "health")}
    ports = [Port(name, bind(name, "127.0.0.1", 0), echo(saw), GUARD) for name, saw in seen.items()]
    with serving(ports) as addresses:
        assert set(addresses) == set(seen)
        assert len({port for _, port in addresses.values()}) == 4
        for name, (host, port) in addresses.items():
            assert host == "127.0.0.1"
            with Raw(port) as raw:
                raw.send(GET)
                assert raw.response()[0] == 200
            assert len(seen[name].scopes) == 1
    for _, port in addresses.values():
        with pytest.raises(ConnectionRefusedError):
            Raw(port)


def test_a_port_in_use_is_one_line() -> None:
    with bind("site", "127.0.0.1", 0) as taken:
        _, port = address_of(taken)
        with pytest.raises(Misconfigured, match=rf"^site port 127\.0\.0\.1:{port} is in use$"):
            bind("site", "127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours_is_one_line(host: str) -> None:
    with pytest.raises(Misconfigured, match=f"^admin port {host}:0: "):
        bind("admin", host, 0)


def test_ipv6_loopback() -> None:
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):  # noqa: PTH110
        pytest.skip("this host has no IPv6")
    with bind("site", "::1", 0) as bound:
        assert address_of(bound)[0] == "::1"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_every_port_in_order(number: signal.Signals) -> None:
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        with Raw(int(process.stdout.readline())) as raw:
            raw.send(GET)
            assert raw.response()[0] == 200
            process.send_signal(number)
            assert raw.closed()  # an idle connection does not delay the end
        assert process.wait(10) == 0
        assert process.stdout.read() == "ended in order\n"
        assert process.stderr.read() == ""
