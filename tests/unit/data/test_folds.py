"""Folds by a keyed hash: fixed by id and key alone, one patient in one fold, nothing to do with the hold-out."""

import hmac
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from secureproto.data.factory import open_source
from secureproto.data.folds import Folding
from secureproto.data.holdout import HoldOut, Side
from secureproto.data.settings import CsvSettings, NpzSettings
from secureproto.data.source import Loaded, check_loaded
from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.study.file import load
from support.site_rig import RECORDS
from support.study_toml import dumps, tabular_table

KEY = bytes(range(32))
STUDY = load(dumps(tabular_table()))


def loaded(n: int, ids: tuple[str, ...] | None = None) -> Loaded:
    x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    train = Records(x, np.arange(n, dtype=np.int64) % 2)
    return Loaded(train, Records(x[:0], train.y[:0]), train_ids=ids)


def folds(found: Loaded, share: float = 0.2, key: bytes = KEY) -> list[int]:
    return [int(fold) for fold in Folding(share, key).of(found)]


def test_the_fold_is_that_of_the_specified_hash() -> None:
    names, expected = tuple(f"p{number}" for number in range(20)), []
    for name in names:
        parts = (b"secureproto/v1/choice-fold", b"id", name.encode())
        image = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        expected.append(int(int.from_bytes(hmac.new(KEY, image, sha256).digest()[:8], "big") / 2**64 * 5))
    assert folds(loaded(20, names)) == expected


def test_neither_order_nor_other_records_move_a_record() -> None:
    names = tuple(f"p{number}" for number in range(40))
    where = dict(zip(names, folds(loaded(40, names)), strict=True))
    assert folds(loaded(40, names[::-1])) == [where[name] for name in names[::-1]]
    assert folds(loaded(3, names[5:8])) == [where[name] for name in names[5:8]]


def test_records_of_one_patient_are_in_one_fold() -> None:
    assert len(set(folds(loaded(8, ("p1",) * 8)))) == 1


def test_without_ids_the_record_itself_decides() -> None:
    whole = loaded(50)
    turned = Loaded(Records(whole.train.x[::-1].copy(), whole.train.y[::-1].copy()), whole.test)
    assert folds(turned) == folds(whole)[::-1]
    assert len(set(folds(whole))) == 5
    some = folds(loaded(50, ("", "p1") * 25))
    assert some[::2] == folds(whole)[::2]
    assert len(set(some[1::2])) == 1


def test_another_key_divides_otherwise_and_the_label_is_not_the_hold_outs() -> None:
    names = tuple(str(number) for number in range(2000))
    found = folds(loaded(2000, names), 0.5)
    assert found != folds(loaded(2000, names), 0.5, bytes(32))
    held = [HoldOut(0.5, KEY).side(name) is Side.TEST for name in names]
    assert abs(np.corrcoef(found, held)[0, 1]) < 0.1


def test_folds_are_about_equal() -> None:
    counts = np.bincount(folds(loaded(5000, tuple(map(str, range(5000))))), minlength=5)
    assert len(counts) == 5
    assert abs(counts - 1000).max() < 120  # over four standard deviations


@pytest.mark.parametrize(("share", "key"), [(0.0, KEY), (0.6, KEY), (0.2, b"short")])
def test_misuse(share: float, key: bytes) -> None:
    with pytest.raises(ValueError, match="folds need"):
        Folding(share, key)


@pytest.mark.parametrize("split", [False, True])
def test_a_csv_file_gives_the_ids_of_its_training_records(tmp_path: Path, split: bool) -> None:
    lines = RECORDS.splitlines()
    rows = [lines[0] + ",part", *(f"{line},{'test' if i % 3 else 'train'}" for i, line in enumerate(lines[1:]))]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    table = {"kind": "csv", "path": tmp_path / "a.csv", "id_column": "id", "hold_out": 0.3}
    settings = CsvSettings.model_validate({**table, "split_column": "part"} if split else table)
    found = open_source(settings, key=KEY).load(STUDY)
    assert found.train_ids is not None
    assert len(found.train_ids) == len(found.train) < 10
    if split:
        assert found.train_ids == ("p1", "p4", "p7", "p10")
    else:
        assert all(HoldOut(0.3, KEY).side(name) is Side.TRAIN for name in found.train_ids)


def test_a_csv_file_without_ids_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(RECORDS)
    settings = CsvSettings.model_validate({"kind": "csv", "path": tmp_path / "a.csv", "hold_out": 0})
    assert open_source(settings, key=KEY).load(STUDY).train_ids is None


def test_an_archive_gives_its_ids(tmp_path: Path) -> None:
    width = len(open_source(_rig_csv(tmp_path), key=KEY).load(STUDY).train.x[0])
    x, y = np.zeros((6, width), np.float32), np.array(["0", "1"] * 3)
    np.savez(tmp_path / "a.npz", x=x, y=y, who=np.array([7, 7, 8, 8, 9, 9]))
    settings = NpzSettings(kind="npz", path=tmp_path / "a.npz", id="who", hold_out=0)
    assert open_source(settings, key=KEY).load(STUDY).train_ids == ("7", "7", "8", "8", "9", "9")


def _rig_csv(directory: Path) -> CsvSettings:
    (directory / "rig.csv").write_text(RECORDS)
    return CsvSettings(kind="csv", path=directory / "rig.csv", hold_out=0)


def test_a_source_that_gives_too_few_ids_is_refused(tmp_path: Path) -> None:
    found = open_source(_rig_csv(tmp_path), key=KEY).load(STUDY)
    assert check_loaded(found, STUDY, "theirs") is found
    with pytest.raises(Misconfigured, match="theirs: not one id for each training record"):
        check_loaded(replace(found, train_ids=("p1",)), STUDY, "theirs")
