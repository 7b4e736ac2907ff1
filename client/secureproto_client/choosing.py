"""What the verbs of `client model` do: find the one study, then its pointer or its model."""

from pathlib import Path

from secureproto.errors import Misconfigured
from secureproto_client import choices
from secureproto_client.export import export
from secureproto_client.models import ModelStore, is_private
from secureproto_client.paths import SitePaths
from secureproto_client.pointer import Pointer
from secureproto_client.predict import study_of
from secureproto_client.status import model_stores


def pointer_of(paths: SitePaths, study: str | None) -> Pointer:
    """The pointer of the study. Raises NotFound; Misconfigured when there are several and none is named."""
    return Pointer(_store(paths, study))


def follow(paths: SitePaths, study: str | None) -> str:
    """Let go of a person's choice: what the site chose of the newest version is in use again, else the newest model.

    Raises as `pointer_of`; NotFound when there is no model.
    """
    store = _store(paths, study)
    return Pointer(store).follow(choices.of_newest(paths.choices, store))


def export_model(paths: SitePaths, name: str, target: Path, *, study: str | None) -> bool:
    """Export a model; says whether it is private. Raises as `export.export`."""
    store = _store(paths, study)
    export(store, study_of(paths, store.study), name, target)
    return is_private(name)


def _store(paths: SitePaths, study: str | None) -> ModelStore:
    found = model_stores(paths, study)
    if len(found) > 1:
        names = ", ".join(store.study for store in found)
        raise Misconfigured(f"this site has models of several studies: {names}", hint="say which: --study NAME")
    return found[0]
