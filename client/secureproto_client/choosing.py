"""What the verbs of `client model` do: find the one study, then its pointer or its model."""

from pathlib import Path

from secureproto.errors import Misconfigured
from secureproto_client.export import export
from secureproto_client.models import LOCAL, ModelStore
from secureproto_client.paths import SitePaths
from secureproto_client.pointer import Pointer
from secureproto_client.predict import study_of
from secureproto_client.status import model_stores


def pointer_of(paths: SitePaths, study: str | None) -> Pointer:
    """The pointer of the study. Raises NotFound; Misconfigured when there are several and none is named."""
    return Pointer(_store(paths, study))


def export_model(paths: SitePaths, name: str, target: Path, *, study: str | None) -> bool:
    """Export a model; says whether it is private. Raises as `export.export`."""
    store = _store(paths, study)
    export(store, study_of(paths, store.study), name, target)
    return name.endswith(LOCAL)


def _store(paths: SitePaths, study: str | None) -> ModelStore:
    found = model_stores(paths, study)
    if len(found) > 1:
        names = ", ".join(store.study for store in found)
        raise Misconfigured(f"this site has models of several studies: {names}", hint="say which: --study NAME")
    return found[0]
