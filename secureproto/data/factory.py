"""From the settings to the data source; also a source of the site's own, `package.module:factory`.

A factory is any callable `(options, hold_out) -> DataSource`. Invariant: a module is imported only if the site's
settings allow exactly that name, and what its source loads is checked like that of ours.
"""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module

from secureproto.data.holdout import HoldOut
from secureproto.data.settings import (
    CsvSettings,
    DataSettings,
    FactorySettings,
    ImageFolderSettings,
    NpzSettings,
    TorchvisionSettings,
)
from secureproto.data.source import DataSource, Loaded, check_loaded
from secureproto.errors import Misconfigured, PolicyDenied
from secureproto.study.schema import StudyFile

SourceFactory = Callable[[Mapping[str, object], HoldOut], DataSource]


class CheckedSource:
    """A foreign source whose loads are held to the contract. A DataSource."""

    def __init__(self, inner: DataSource, name: str) -> None:
        self._inner = inner
        self._name = name

    def load(self, study: StudyFile) -> Loaded:
        """What the source loads, if it keeps the contract."""
        loaded = self._inner.load(study)
        if not isinstance(loaded, Loaded):
            raise Misconfigured(f"{self._name}: gives {type(loaded).__name__}; a source gives Loaded")
        return check_loaded(loaded, study, self._name)


def open_source(settings: DataSettings, *, key: bytes, allowed_factories: Collection[str] = ()) -> DataSource:
    """The source that the settings describe; `key` is the site's hold-out key.

    Raises:
        PolicyDenied: a factory that the site does not allow.
        Misconfigured: a factory that is not installed, or is none.
    """
    match settings:
        case CsvSettings():
            from secureproto.data.tabular import CsvSource

            return CsvSource(settings, HoldOut(settings.hold_out, key))
        case NpzSettings():
            from secureproto.data.arrays import NpzSource

            return NpzSource(settings, HoldOut(settings.hold_out, key))
        case ImageFolderSettings():
            from secureproto.data.images import ImageFolderSource

            return ImageFolderSource(settings, HoldOut(settings.hold_out, key))
        case TorchvisionSettings():
            from secureproto.data.vision import TorchvisionSource

            return TorchvisionSource(settings)
        case FactorySettings():
            return _foreign(settings, HoldOut(settings.hold_out, key), allowed_factories)


def _foreign(settings: FactorySettings, hold_out: HoldOut, allowed: Collection[str]) -> DataSource:
    name = settings.factory
    if name not in allowed:
        raise PolicyDenied(
            f"data source {name}: this site does not allow it",
            reasons=("data_factory",),
            hint="read its code; then add the name to the allowed factories of this site's settings",
        )
    module, _, attribute = name.partition(":")
    try:
        factory: SourceFactory = getattr(import_module(module), attribute)
    except ImportError:
        raise Misconfigured(f"data source {name}: cannot be imported here", hint="install its package") from None
    except AttributeError:
        raise Misconfigured(f"data source {name}: its module has no such name") from None
    if not callable(factory):
        raise Misconfigured(f"data source {name}: is not a function")
    source = factory(settings.options, hold_out)
    if not callable(getattr(source, "load", None)):
        raise Misconfigured(
            f"data source {name}: gives {type(source).__name__}; a factory gives a source with load()"
        )
    return CheckedSource(source, name)
