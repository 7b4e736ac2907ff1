"""Where everything of a site lies, below one directory.

DIR/
  client.toml        settings; written once by `client enroll`, never rewritten: it is the engineer's file
  site.json          federation, site and server address, from the invitation
  tls.key signing.key hpke.key     the site's private keys, encrypted; they never leave this host
  tls.pem            certificate chain, renewed by itself
  root.json          the root document in force, as signed
  state/             journal.db, lock, client.pid, client.log, scores.json, choices.json, hold-out.key
    roots/           every root document the site has seen, one file a version
    studies/         study descriptors as the operator signed them
    inbox/           releases being fetched
    outbox/          sealed uploads until their round is over
    models/          <study>/<version>/ and the pointer <study>/current.json
"""

from dataclasses import dataclass
from pathlib import Path

from secureproto_client.durable import make_directory


@dataclass(frozen=True)
class SitePaths:
    """The names of a site's files below `root`."""

    root: Path

    @property
    def settings(self) -> Path:
        return self.root / "client.toml"

    @property
    def site(self) -> Path:
        return self.root / "site.json"

    @property
    def tls_key(self) -> Path:
        return self.root / "tls.key"

    @property
    def signing_key(self) -> Path:
        return self.root / "signing.key"

    @property
    def hpke_key(self) -> Path:
        return self.root / "hpke.key"

    @property
    def certificate(self) -> Path:
        return self.root / "tls.pem"

    @property
    def root_document(self) -> Path:
        return self.root / "root.json"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def journal(self) -> Path:
        return self.state / "journal.db"

    @property
    def lock(self) -> Path:
        return self.state / "lock"

    @property
    def pid(self) -> Path:
        return self.state / "client.pid"

    @property
    def log(self) -> Path:
        return self.state / "client.log"

    @property
    def scores(self) -> Path:
        return self.state / "scores.json"

    @property
    def choices(self) -> Path:
        return self.state / "choices.json"

    @property
    def hold_out_key(self) -> Path:
        return self.state / "hold-out.key"

    @property
    def roots(self) -> Path:
        return self.state / "roots"

    @property
    def studies(self) -> Path:
        return self.state / "studies"

    @property
    def inbox(self) -> Path:
        return self.state / "inbox"

    @property
    def outbox(self) -> Path:
        return self.state / "outbox"

    @property
    def models(self) -> Path:
        return self.state / "models"

    def make(self) -> None:
        """Make the directories, private to the owner."""
        for path in (self.root, self.state, self.roots, self.studies, self.inbox, self.outbox, self.models):
            make_directory(path)
