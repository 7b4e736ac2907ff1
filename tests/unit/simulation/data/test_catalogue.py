"""Names of published sets: each has its study and its line, and what is no name says so."""

from pathlib import Path

import numpy as np
import pytest

from secureproto.data.source import Isolated
from secureproto.errors import Misconfigured
from secureproto.simulation.data.catalogue import example_study, known, load_pool, read
from secureproto.simulation.data.reading import SourceOptions
from secureproto.simulation.heart.hospitals import HOSPITALS
from secureproto.simulation.population import Pool
from secureproto.study.file import load
from secureproto.study.schema import StudyFile
from support.study_toml import dumps, image_table, put, tabular_table

NAMES = ["heart", "digits", "breast-cancer", "fashion-mnist", "cifar10", "cifar100", "emnist"]
NOTHING = SourceOptions()


def study_of(name: str) -> StudyFile:
    return load(example_study(name))


def pool(*data: str, study: StudyFile | None = None, options: SourceOptions = NOTHING) -> Pool:
    return load_pool(data, study or study_of(data[0]), options=options, root=None)


def refusal(*data: str, study: StudyFile | None = None, options: SourceOptions = NOTHING) -> str:
    with pytest.raises(Misconfigured) as caught:
        pool(*data, study=study or study_of("heart"), options=options)
    assert caught.value.message.isprintable()
    return f"{caught.value.message} | {caught.value.hint}"


def test_every_name_has_its_lines() -> None:
    assert [entry.name for entry in known()] == NAMES
    assert all(entry.title and entry.licence and entry.files for entry in known())


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_a_study_that_loads(name: str) -> None:
    study = study_of(name)
    assert study.name == name
    assert study.relation.normalisation == "evidence"


def test_the_study_of_fashion_mnist_is_fedpacs() -> None:
    study = study_of("fashion-mnist")
    assert (study.model.name, study.model.embedding_width, study.rounds.total) == ("cnn", 128, 200)
    training = study.training
    assert (training.batch_size, training.local_epochs, training.learning_rate) == (50, 5, 0.01)
    assert (training.momentum, training.alignment_weight) == (0.5, 1.0)


def test_the_hospitals_are_sites_with_the_benchmarks_split() -> None:
    reading = read(["heart"], study_of("heart"), options=NOTHING, root=None)
    found = reading.pool
    assert found.sites is not None
    assert found.held_out is not None
    counts = {
        site: tuple(int(((found.sites == site) & (found.held_out == side)).sum()) for side in (False, True))
        for site in HOSPITALS
    }
    assert counts == {
        "cleveland": (199, 104),
        "hungary": (172, 89),
        "switzerland": (30, 16),
        "long-beach": (85, 45),
    }
    assert len(found.records) == 740
    assert found.records.x.shape[1:] == (18,)
    assert reading.left_out == {Isolated.NO_SPLIT: 180}


def test_digits() -> None:
    found = pool("digits")
    assert (found.sites, found.held_out) == (None, None)
    assert found.records.x.shape == (1797, 1, 8, 8)
    assert (found.records.x.min(), found.records.x.max()) == (-1, 1)
    assert np.unique(found.records.x * 8).size == 17  # every pixel is one of 17 counts
    assert np.bincount(found.records.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_breast_cancer() -> None:
    found = pool("breast-cancer")
    assert found.records.x.shape == (569, 30)
    assert np.abs(found.records.x).max() <= 1
    # each range is the description's own, so both of its ends are reached
    assert np.allclose(found.records.x.min(axis=0), -1, atol=0.05)
    assert np.allclose(found.records.x.max(axis=0), 1, atol=0.05)
    assert np.bincount(found.records.y).tolist() == [212, 357]


@pytest.mark.parametrize("name", ["heart", "digits", "breast-cancer"])
def test_a_set_is_the_same_each_time(name: str) -> None:
    assert pool(name).digest() == pool(name).digest()


def test_a_study_may_take_fewer_columns_and_join_classes() -> None:
    wide = study_of("breast-cancer")
    few = wide.model_copy(update={"data": wide.data.model_copy(update={"features": wide.data.features[3:5]})})
    assert np.array_equal(pool("breast-cancer", study=few).records.x, pool("breast-cancer").records.x[:, 3:5])
    table = put(image_table(), "data.label", {"values": {str(n): "yes" if n % 2 else "no" for n in range(10)}})
    for key in ("height", "width"):
        put(table, f"model.{key}", 8)
    put(table, "model.name", "mlp")
    odd = pool("digits", study=load(dumps(table))).records.y
    assert np.array_equal(odd, pool("digits").records.y % 2)


@pytest.mark.parametrize(
    ("name", "study", "line"),
    [
        ("digits", "fashion-mnist", "digits: images of 1 × 8 × 8, and the study fashion-mnist has other records"),
        ("digits", "heart", "digits: images of 1 × 8 × 8, and the study heart has other records"),
        ("breast-cancer", "digits", "breast-cancer: is a table, and the study digits has images"),
        ("breast-cancer", "heart", "breast-cancer: has no column age, sex, cp"),
        ("heart", "breast-cancer", "line 1: no column mean radius"),
        ("heart", "breast-cancer", " | take the study file of heart"),
        ("heart", "digits", "a CSV file in an image study | take the study file of heart"),
    ],
)
def test_another_study_is_refused(name: str, study: str, line: str) -> None:
    assert line in refusal(name, study=study_of(study))


def test_the_label_of_breast_cancer_is_the_diagnosis() -> None:
    study = study_of("breast-cancer")
    data = study.data.model_copy(update={"label": study.data.label.model_copy(update={"column": "outcome"})})
    said = refusal("breast-cancer", study=study.model_copy(update={"data": data}))
    assert said.startswith("breast-cancer: has no column outcome | take the study file of breast-cancer")


def test_classes_that_the_study_lacks() -> None:
    table = put(image_table(), "model", {"name": "mlp", "embedding_width": 4, "channels": 1, "height": 8, "width": 8})
    said = refusal("digits", study=load(dumps(table)))
    assert said.startswith("digits: its 10 classes are not those of the study small: column label: unknown label")
    assert refusal("breast-cancer", study=load(dumps(tabular_table()))).startswith("breast-cancer: has no column age")


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (["hart"], "no data set 'hart' | did you mean heart?"),
        (["fashion_mnist"], "no data set 'fashion_mnist' | did you mean fashion-mnist?"),
        (
            ["zzz"],
            f"no data set 'zzz' | one of: {', '.join(NAMES)}; or paths of .csv",
        ),
        ([], "data: none named | one of: heart"),
        (["heart", "digits"], "data: heart together with others"),
        (["./a.csv", "digits"], "data: digits together with others"),
        (["./a.csv", "hart"], "no data set 'hart'"),
    ],
)
def test_names_that_are_none(data: list[str], line: str) -> None:
    assert line in refusal(*data)


def test_a_published_set_has_its_own_columns() -> None:
    said = refusal("heart", options=SourceOptions(split_column="split"))
    assert said.startswith("data: heart takes no columns of yours")


def test_a_name_goes_before_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heart").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(pool("heart").records) == 740
    assert "heart: images in a tabular study" in refusal("./heart")


def test_no_example_of_another_name() -> None:
    with pytest.raises(Misconfigured, match="no data set 'digit'"):
        example_study("digit")


def test_a_root_of_published_sets_beside_files_of_one_s_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="--data-root: is for built-in sets"):
        read([str(tmp_path / "own.csv")], study_of("heart"), options=NOTHING, root=tmp_path)
