"""The site's line to its server: one transport at a time, tried patiently, made anew when certificate or root change.

Invariant: a transport is made from the root document in force and the certificate on the disk, so a renewed
certificate or a new CA is in use from the next request on, without a restart.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from secureproto.crypto.keyfile import read_private
from secureproto.errors import Misconfigured
from secureproto_client.identity import SiteFile
from secureproto_client.settings import ProxySettings, Settings
from secureproto_client.transport.diagnosis import diagnose, verdict
from secureproto_client.transport.endpoint import ClientCertificate, Endpoint, Proxy
from secureproto_client.transport.https import HttpsTransport
from secureproto_client.transport.patience import Patience
from secureproto_client.transport.seam import Transport
from secureproto_client.trust import Trust

T = TypeVar("T")
Connect = Callable[[Trust, ClientCertificate | None], Transport]


def _nothing() -> None:
    """No certificate to renew."""


@dataclass
class Link:
    """A line that stays: `ask` with the site's certificate, `ask_bare` without (enrolment and renewal only)."""

    trust: Trust
    connect: Connect
    patience: Patience
    certificate: ClientCertificate | None = None
    refresh: Callable[[], None] = _nothing  # before every try of `ask`: renews a certificate that is due
    _transport: Transport | None = field(default=None, init=False)

    def ask(self, action: Callable[[Transport], T]) -> T:
        """The result of `action`, tried until the server answers. Raises what the action raises but Unavailable,
        and that too when the patience has an end."""

        def once() -> T:
            self.refresh()
            return action(self._open())

        return self.patience.persist(once)

    def ask_bare(self, action: Callable[[Transport], T]) -> T:
        """As `ask`, over a connection that shows no client certificate: enrolment has none yet."""
        return self.patience.persist(lambda: self.once_bare(action))

    def once_bare(self, action: Callable[[Transport], T]) -> T:
        """One try without a client certificate: an expired one would be refused, and renewal needs none."""
        transport = self.connect(self.trust, None)
        try:
            return action(transport)
        finally:
            transport.close()

    def renew(self, trust: Trust | None = None) -> None:
        """From the next request on: the certificate that is on the disk now, and `trust` if it is given."""
        self.close()
        self.trust = trust or self.trust

    def close(self) -> None:
        """Give the connections back."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _open(self) -> Transport:
        if self._transport is None:
            self._transport = self.connect(self.trust, self.certificate)
        return self._transport


def endpoint(site: SiteFile, settings: Settings, trust: Trust, certificate: ClientCertificate | None) -> Endpoint:
    """Where the server is, by the site's file and settings. Raises Misconfigured for an unusable proxy login."""
    return Endpoint(site.server, trust.ca, certificate, _proxy(settings.proxy))


def over_https(
    site: SiteFile,
    settings: Settings,
    trust: Trust,
    *,
    certificate: ClientCertificate | None,
    sleep: Callable[[float], None],
    tries: int | None = None,
) -> Link:
    """A link over HTTPS that tells what is wrong after three failures, and gives up after `tries` (None: never)."""

    def connect(trust: Trust, certificate: ClientCertificate | None) -> Transport:
        return HttpsTransport(endpoint(site, settings, trust, certificate))

    def diagnosis() -> str:
        return verdict(diagnose(endpoint(site, settings, link.trust, link.certificate)))

    link = Link(trust, connect, Patience(sleep, diagnosis, tries), certificate)
    return link


def _proxy(settings: ProxySettings | None) -> Proxy | None:
    if settings is None:
        return None
    if settings.credentials is None:
        return Proxy(settings.url, settings.ca_file)
    # systemd grants a service access by an ACL that shows as a group bit: only "other" is refused
    login = read_private(settings.credentials, forbidden=0o007).decode(errors="replace").strip()
    user, separator, password = login.partition(":")
    if not separator or not user:
        raise Misconfigured(f"{settings.credentials}: not one line `user:password`")
    return Proxy(settings.url, settings.ca_file, user, password)
