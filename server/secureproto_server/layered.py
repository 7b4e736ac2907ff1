"""Settings from a TOML file, then environment variables, which win; whatever is wrong is one line.

Invariant: an unknown key, a wrong type or an impossible value names the file (or the variable), the key and what is
wrong or allowed.
"""

import os
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from secureproto.environment import require_known
from secureproto.errors import Misconfigured

S = TypeVar("S", bound="Layered")


class Layered(BaseSettings):
    """Settings of two layers. A subclass sets `env_prefix`, `extra="forbid"` and `frozen=True`."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - pydantic-settings passes these by name
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file; there is no third source."""
        return (env_settings, init_settings)


def load_layered(kind: type[S], path: Path, *, hint: str) -> S:
    """The settings of a file. `hint`: what to do when there is none.

    Raises:
        Misconfigured: unreadable, not TOML, or a key that does not fit.
    """
    values = _toml(path, hint)
    require_known(str(kind.model_config.get("env_prefix")), kind.model_fields)
    try:
        return kind(**values)
    except ValidationError as error:
        raise _explain(error, kind, path) from None
    except ValueError:
        prefix = kind.model_config.get("env_prefix")
        raise Misconfigured(f"an environment variable {prefix}… is not what its setting takes") from None


def _toml(path: Path, hint: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}", hint=hint) from None
    except ValueError as error:
        raise Misconfigured(f"{path}: not TOML: {error}") from None


def _explain(error: ValidationError, kind: type[Layered], path: Path) -> Misconfigured:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    variable = str(kind.model_config.get("env_prefix")) + key.replace(".", "__").upper()
    where = variable if variable in os.environ else f"{path}: {key}"
    if first["type"] == "extra_forbidden":
        return Misconfigured(f"{where}: unknown key", hint=f"allowed: {', '.join(sorted(kind.model_fields))}")
    return Misconfigured(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}")
