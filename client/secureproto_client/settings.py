"""The site's settings: `client.toml`, then environment variables `SECUREPROTO_CLIENT_…`, which win.

    credentials = "credentials"          # directory with the passphrase file `site`; else $CREDENTIALS_DIRECTORY
    log_level = "info"

    [data]                               # where the records lie: see secureproto.data.settings
    kind = "csv"
    path = "patients.csv"

    [studies.heart]                      # nothing is trained for a study that is not accepted here
    accept = true
    digest = "…"                         # optional: exactly this study file

    [training]
    threads = 1
    validation = 0.2                     # the share of the training records that judges at a time; 0: no choice
    longer = 10                          # local trainings of the candidates trained longest; 0: none longer than one

    [proxy]
    url = "http://proxy.example:3128"
    credentials = "proxy-login"          # a file with one line `user:password`

Invariants: an unknown key, a wrong type or an impossible value is one line that names the file (or the variable),
the key and what is wrong; relative paths are relative to the file; nothing here is a secret; the file is the
engineer's and is never rewritten.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from secureproto.data.settings import FOLD_SHARE, LONGER, DataSettings, below
from secureproto.environment import require_known
from secureproto.errors import Misconfigured
from secureproto.regular import read_regular
from secureproto.wire.messages.base import Digest, Name

PREFIX = "SECUREPROTO_CLIENT_"
SMALLEST_SHARE = 0.05  # the candidates are fitted once for each share
MOST_TRAININGS = 1000


def _proxy_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError("must be http://host:port or https://host:port, without user and password")
    return url


def _yes_or_no(value: object) -> object:
    """Consent is not guessed: true or false, also as the text that an environment variable holds."""
    if not isinstance(value, bool) and value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value


def _share_or_none(share: float) -> float:
    if share != 0 and not SMALLEST_SHARE <= share <= 0.5:
        raise ValueError(f"must be 0, or from {SMALLEST_SHARE} to 0.5")
    return share


def _several_or_none(trainings: int) -> int:
    if trainings != 0 and not 2 <= trainings <= MOST_TRAININGS:
        raise ValueError(f"must be 0, or from 2 to {MOST_TRAININGS}")
    return trainings


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProxySettings(_Section):
    """The proxy a site goes out through. `ca_file`: PEM with the CA of an https:// proxy's own certificate."""

    url: Annotated[str, AfterValidator(_proxy_url)]
    ca_file: Path | None = None
    credentials: Path | None = None


class StudySettings(_Section):
    """What the site says to one study. `data`: its own source, where it is not that of `[data]`.

    `allowed_factories`: the `package.module:factory` names whose code may run here, of models and of data sources.
    """

    accept: Annotated[bool, BeforeValidator(_yes_or_no)] = False
    digest: Digest | None = None
    allowed_factories: tuple[str, ...] = ()
    data: DataSettings | None = None

    def takes(self, digest: str) -> bool:
        """Whether the site takes part in the study of this digest: accepted, and no other digest is written here."""
        return self.accept and self.digest in (None, digest)


class TrainingSettings(_Section):
    """`threads`: torch's, 1 because hospitals' hosts have other work. `fine_tune`: epochs of local training after
    the last version; the study's own amount when it is not given; 0 for none.

    `validation`: after the last version the site chooses what it uses (`secureproto.learning.choice`). So large a
    share of its training records judges candidates that were fitted on the others, one share after the other, until
    each record has judged. The rounds train on all of them, and uploads are the same with any value. 0: no choice,
    what local training made is used.

    `longer`: local trainings, one after the other, that make the candidates trained longest; all of a choice takes
    1 / `validation` times as many, and some. 0: none is trained longer than `fine_tune` says, as with `fine_tune` 0.
    """

    threads: Annotated[int, Field(ge=1, le=256)] = 1
    fine_tune: Annotated[int, Field(ge=0, le=10_000)] | None = None
    validation: Annotated[float, AfterValidator(_share_or_none)] = FOLD_SHARE
    longer: Annotated[int, AfterValidator(_several_or_none)] = LONGER


class Settings(BaseSettings):
    """Everything that can be set at a site; every default is the careful one."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    credentials: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    data: DataSettings | None = None
    studies: dict[Name, StudySettings] = {}
    training: TrainingSettings = TrainingSettings()
    proxy: ProxySettings | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is the library's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - likewise
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - likewise
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file; there is no third source."""
        return (env_settings, init_settings)

    def study(self, name: str) -> StudySettings:
        """What the site says to a study; not accepted when it says nothing."""
        return self.studies.get(name, StudySettings())

    def data_for(self, study: str) -> DataSettings:
        """Where the records for a study lie. Raises Misconfigured when nothing is said."""
        found = self.study(study).data or self.data
        if found is None:
            raise Misconfigured(
                f"client.toml: no [data], and no [studies.{study}.data]", hint="say where this site's records lie"
            )
        return found


def load(path: Path) -> Settings:
    """The settings of a file.

    Raises:
        Misconfigured: unreadable, not TOML, or a key that does not fit.
    """
    values = _toml(path)
    require_known(PREFIX, Settings.model_fields)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise _explained(error, path, values) from None
    except ValueError:
        raise Misconfigured(f"an environment variable {PREFIX}… is not what its setting takes") from None
    return _resolved(settings, path.resolve().parent)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(path).decode())
    except OSError as error:
        raise Misconfigured(
            f"{path}: cannot be read: {error.strerror}", hint="`secureproto client enroll` writes a first one"
        ) from None
    except ValueError as error:
        raise Misconfigured(f"{path}: not TOML: {str(error)[:120]}") from None


def _resolved(settings: Settings, base: Path) -> Settings:
    """Relative paths taken from the directory of the file."""
    changed: dict[str, object] = {}
    if settings.credentials is not None:
        changed["credentials"] = base / settings.credentials
    if settings.data is not None:
        changed["data"] = below(settings.data, base)
    if settings.proxy is not None:
        changed["proxy"] = settings.proxy.model_copy(update=_files(settings.proxy, base))
    changed["studies"] = {
        name: study.model_copy(update={"data": below(study.data, base)}) if study.data else study
        for name, study in settings.studies.items()
    }
    return settings.model_copy(update=changed)


def _files(proxy: ProxySettings, base: Path) -> dict[str, Path]:
    given = {"ca_file": proxy.ca_file, "credentials": proxy.credentials}
    return {name: base / path for name, path in given.items() if path is not None}


def _explained(error: ValidationError, path: Path, values: Mapping[str, Any]) -> Misconfigured:
    first = error.errors(include_input=False)[0]
    parts = _key(first["loc"], values)
    variable = PREFIX + "__".join(parts).upper()
    where = variable if variable in os.environ else f"{path}: {'.'.join(parts)}"
    if first["type"] == "extra_forbidden":
        tables = ", ".join(sorted(Settings.model_fields))
        hint = f"at the top there are: {tables}" if len(parts) == 1 else "its keys: README, Settings of a site"
        return Misconfigured(f"{where}: unknown key", hint=hint)
    told = first["msg"].removeprefix("Value error, ")
    return Misconfigured(f"{where}: {told[:1].lower()}{told[1:]}"[:300])


def _key(location: tuple[int | str, ...], values: Mapping[str, Any]) -> list[str]:
    """The dotted key as it stands in the file: without the tags that a union puts into the location."""
    parts: list[str] = []
    here: Any = values
    for index, part in enumerate(location):
        known = isinstance(here, Mapping) and part in here
        if not known and index < len(location) - 1 and isinstance(here, Mapping) and here.get("kind") == part:
            continue
        parts.append(str(part))
        here = here[part] if known else None
    return parts
