"""What every part of the server works with, made once at the start and passed in: there is no ambient state."""

import threading
from dataclasses import dataclass, field

from secureproto.clock import Clock
from secureproto_server.allowance import Allowance
from secureproto_server.bases import Bases
from secureproto_server.identity import Identity
from secureproto_server.log import Log
from secureproto_server.metrics import ServerMetrics
from secureproto_server.settings import Settings
from secureproto_server.storage.blobs import BlobStore
from secureproto_server.storage.store import Store
from secureproto_server.wakeups import Wakeups


@dataclass(frozen=True)
class Services:
    """The server's parts. `epoch` grows when a server is restored from a backup; `public_url` is what sites call."""

    settings: Settings
    federation: str
    epoch: int
    public_url: str
    clock: Clock
    store: Store
    blobs: BlobStore
    identity: Identity
    log: Log
    metrics: ServerMetrics
    sampling_seed: bytes  # decides which sites take part in which round; 32 bytes, made once
    news: Wakeups = field(default_factory=Wakeups)  # for sites that poll
    work: Wakeups = field(default_factory=Wakeups)  # for the coordinator
    bases: Bases = field(default_factory=Bases)
    refusals: Allowance = field(init=False)
    # held by whoever makes a body and its row outside the coordinator's thread; the sweeper waits for it
    publishing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        object.__setattr__(self, "refusals", Allowance(self.clock))  # frozen from here on

    def tell_sites(self) -> None:
        """Something that sites want to know has happened; the coordinator looks too."""
        self.news.tell()
        self.work.tell()
