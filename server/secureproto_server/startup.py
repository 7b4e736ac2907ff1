"""Starting the server on its state directory, in this order:

    1. the lock: one process owns a state directory
    2. the keys, opened with the passphrase of the credential directory
    3. the database, brought to this program's schema
    4. the clock, against the last time that was kept
    5. the root document: the first one from the directory, later ones from the database; it names these keys
    6. one transaction: what the first start makes (epoch, seed, root), the clock's mark, the entry `server_started`

Invariant: whatever is wrong is one line, before a port is served, and nothing is half written.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from secureproto import __version__
from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Detail, Role
from secureproto.clock import Clock, seconds
from secureproto.errors import Misconfigured, Rejected
from secureproto.wire.messages import RootDocument
from secureproto_server import clock_guard, gauges, identity, roots
from secureproto_server.clock_guard import GuardedClock
from secureproto_server.lock import StateLock
from secureproto_server.log import Log
from secureproto_server.metrics import ServerMetrics
from secureproto_server.services import Services
from secureproto_server.settings import Settings
from secureproto_server.storage.directory_blobs import DirectoryBlobs
from secureproto_server.storage.migrate import upgrade
from secureproto_server.storage.records import Meta, Root
from secureproto_server.storage.sql import SqlStore
from secureproto_server.storage.store import Store, Transaction

FIRST_EPOCH = 1
EPOCH, SEED = "epoch", "sampling-seed"


@contextmanager
def started(settings: Settings, clock: Clock, *, public_url: str, accept_forward: bool) -> Iterator[Services]:
    """The server's parts, for as long as the block lasts.

    Raises:
        Misconfigured, Conflict, IntegrityBroken: as the steps above say.
    """
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with StateLock(settings.state):
        keys = identity.load(settings)
        url = f"sqlite:///{settings.state / 'server.db'}"
        upgrade(url)
        store = SqlStore(url)
        try:
            guarded = GuardedClock(clock)
            metrics = ServerMetrics(guarded)
            root = _root(store, settings)
            roots.require_own_keys(root, keys.signer.public, keys.hpke_public)
            log = Log(root.federation, keys.signer, guarded, metrics)
            epoch, seed = _begin(store, log, settings, guarded, accept_forward=accept_forward)
            services = Services(
                settings=settings,
                federation=root.federation,
                epoch=epoch,
                public_url=public_url,
                clock=guarded,
                store=store,
                blobs=DirectoryBlobs(settings.state, quota=settings.upload_quota_bytes),
                identity=keys,
                log=log,
                metrics=metrics,
                sampling_seed=seed,
            )
            gauges.refresh(services)
            yield services
            _end(services)
        finally:
            store.close()


def _root(store: Store, settings: Settings) -> RootDocument:
    with store.transaction("read root") as tx:
        if tx.select(Root):
            return roots.in_force(tx)
    return _founding(settings)[1]


def _founding(settings: Settings) -> tuple[bytes, RootDocument]:
    path = settings.directory / "root.json"
    try:
        envelope = path.read_bytes()
        return envelope, roots.founding(envelope)
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror}", hint="make it with: secureproto federation init") from None
    except Rejected as error:
        raise Misconfigured(f"{path}: {error.message}") from None


def _begin(store: Store, log: Log, settings: Settings, clock: Clock, *, accept_forward: bool) -> tuple[int, bytes]:
    now = seconds(clock)
    with store.transaction("start server") as tx:
        leap = clock_guard.check_mark(tx, now, accept_forward=accept_forward)
        if not tx.select(Root):
            _found(tx, log, settings)
        epoch, seed = tx.get(Meta, EPOCH), tx.get(Meta, SEED)
        if epoch is None or seed is None:
            epoch, seed = Meta(EPOCH, str(FIRST_EPOCH)), Meta(SEED, secrets.token_hex(32))
            tx.put(epoch)
            tx.put(seed)
        if leap:
            log.append(tx, _event(Action.CLOCK_JUMPED, {Detail.SKEW: leap}))
        details: dict[Detail, str | int] = {
            Detail.VERSION: __version__,
            Detail.CONFIGURATION: settings.digest(),
            Detail.EPOCH: int(epoch.value),
        }
        log.append(tx, _event(Action.SERVER_STARTED, details))
        clock_guard.keep_mark(tx, now)
        return int(epoch.value), bytes.fromhex(seed.value)


def _found(tx: Transaction, log: Log, settings: Settings) -> None:
    envelope, root = _founding(settings)
    tx.insert(Root(root.version, root.digest(), envelope))
    event = Event(
        actor="server",
        role=Role.SERVER,
        action=Action.FEDERATION_CREATED,
        object=root.federation,
        object_digest=root.digest(),
    )
    log.append(tx, event)


def _end(services: Services) -> None:
    with services.store.transaction("stop server") as tx:
        services.log.append(tx, _event(Action.SERVER_STOPPED, {}))
        clock_guard.keep_mark(tx, seconds(services.clock))


def _event(action: Action, details: dict[Detail, str | int]) -> Event:
    return Event(actor="server", role=Role.SERVER, action=action, details=details)
