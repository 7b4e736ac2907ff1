"""The server's settings: a TOML file, then environment variables `SECUREPROTO_SERVER_…`, which win.

Invariants: what is wrong is one line (`layered`); relative paths are relative to the file; nothing here is secret
(passphrases come from the credential directory).
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import SettingsConfigDict

from secureproto.wire.canonical import encode, labelled_digest
from secureproto_server.layered import Layered, load_layered

FILE = "server.toml"
PREFIX = "SECUREPROTO_SERVER_"
GIB = 2**30


class Listener(BaseModel):
    """One port. `port` 0: any free one; the real ones are written to `<state>/ports.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)]


class Settings(Layered):
    """Everything that can be set; every value has a default that is safe."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )
    # host names and addresses by which sites reach the server: what TLS presents and what a Host header may say
    names: Annotated[tuple[str, ...], Field(min_length=1)] = ("localhost",)
    public_url: str = ""  # what invitations say; empty: https://<first name>:<site port>
    site: Listener = Listener(port=8443)
    admin: Listener = Listener(port=8444)
    metrics: Listener = Listener(port=9464)
    health: Listener = Listener(port=8081)
    state: Path = Path("state")
    directory: Path = Path()  # where keys, certificates and the first root document lie
    credentials: Path | None = None  # else $CREDENTIALS_DIRECTORY
    certificate_hours: Annotated[int, Field(ge=1, le=24 * 90)] = 72  # life of a site's TLS certificate
    site_uploads: Annotated[int, Field(ge=1, le=64)] = 4  # bodies one site may send at once
    global_uploads: Annotated[int, Field(ge=1, le=10_000)] = 64
    upload_quota_bytes: Annotated[int, Field(ge=2**20)] = 64 * GIB  # ciphertext of uploads and models together
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def digest(self) -> str:
        """What the log says of the configuration: a digest of every value."""
        values = {key: str(value) for key, value in self.model_dump(mode="json").items()}
        return labelled_digest("secureproto/v1/server-configuration", encode(values))


def load(path: Path) -> Settings:
    """The settings of a file, or of `server.toml` in a directory.

    Raises:
        Misconfigured: unreadable, not TOML, or a key that does not fit.
    """
    path = path / FILE if path.is_dir() else path
    settings = load_layered(Settings, path, hint="make one with: secureproto federation init")
    base = path.resolve().parent
    moved = {name: base / getattr(settings, name) for name in ("state", "directory")}
    if settings.credentials is not None:
        moved["credentials"] = base / settings.credentials
    return settings.model_copy(update=moved)
