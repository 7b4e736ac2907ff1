"""The files of models: any site's name has one, and no two share it."""

from pathlib import Path

import numpy as np
import pytest

from secureproto.simulation.run import KEPT, PERSONAL
from secureproto.simulation.saved_models import save_models
from secureproto.simulation.store import SHARED, RunStore

LONG = "Городская клиническая больница номер один имени Н. И. Пирогова"


@pytest.mark.parametrize("sites", [["north"], [LONG, LONG[:-1] + "ы"], ["東" * 63, "🏥" * 63, "%" * 63]])
def test_every_site_has_its_files(sites: list[str], tmp_path: Path) -> None:
    store = RunStore()
    with store.transaction():
        for owner in (SHARED, *(prefix + site for prefix in (PERSONAL, KEPT) for site in sites)):
            store.put(owner, {"w": np.zeros(2, np.float32)})
    save_models(store, tmp_path, sites)
    assert len(list(tmp_path.iterdir())) == 1 + 2 * len(sites)
    store.close()


def test_a_name_that_fits_is_the_site_s_own(tmp_path: Path) -> None:
    store = RunStore()
    with store.transaction():
        store.put(KEPT + "a b", {"w": np.zeros(2, np.float32)})
    save_models(store, tmp_path, ["a b"])
    assert [path.name for path in tmp_path.iterdir()] == ["a%20b.kept.safetensors"]
    store.close()
