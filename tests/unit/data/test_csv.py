"""CSV files as sites really have them: what loads, and the one line for what does not."""

from pathlib import Path

import pytest

from secureproto.data.factory import open_source
from secureproto.data.holdout import HoldOut
from secureproto.data.settings import CsvSettings
from secureproto.data.source import Isolated, Loaded
from secureproto.data.tabular import CsvSource
from secureproto.errors import Misconfigured
from secureproto.study.file import load
from secureproto.study.schema import StudyFile
from support.study_toml import dumps, image_table, put, tabular_table

KEY = bytes(32)
HEADER = "pid,age,dose,rate,sex,pain,ecg,out,part"
GOOD = "p1,50,1.0,120,m,2,1,0,train"
STUDY = load(dumps(tabular_table()))
DROP = load(dumps(put(tabular_table(), "data.bad_record", "drop")))


def read(path: Path, text: str | bytes, study: StudyFile = STUDY, **settings: object) -> Loaded:
    path = path / "a.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    table = {"kind": "csv", "path": path, "split_column": "part", **settings}
    return open_source(CsvSettings.model_validate(table), key=KEY).load(study)


def refusal(path: Path, text: str | bytes, study: StudyFile = STUDY, **settings: object) -> str:
    with pytest.raises(Misconfigured) as caught:
        read(path, text, study, **settings)
    line = caught.value.message
    assert line.isprintable()
    assert line.startswith(str(path / "a.csv"))
    return line.removeprefix(str(path / "a.csv")) + " | " + caught.value.hint


def test_records_labels_and_the_datas_own_split(tmp_path: Path) -> None:
    text = f"{HEADER}\n{GOOD}\np2,20,,200,f,,NA,2,test\np3,30,0,40,f,1,0,1,\n"
    loaded = read(tmp_path, text)
    assert loaded.train.x.tolist() == [[0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1]]
    assert loaded.test.x.tolist() == [[-1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0]]
    assert (loaded.train.y.tolist(), loaded.test.y.tolist()) == ([0], [1])
    assert loaded.isolated == {Isolated.NO_SPLIT: 1}


@pytest.mark.parametrize(
    "text",
    [
        "{h}\r\n{g}\r\n",
        "{h}\n\n{g}\n\n\n",
        '{h}\n"p1",50,"1.0", 120 ,m,2,1,0,train',
        "x,{h}\n,{g}\n",
    ],
    ids=["crlf", "blank lines", "quotes and blanks", "another column"],
)
def test_variants_that_load_alike(tmp_path: Path, text: str) -> None:
    expected = read(tmp_path, f"{HEADER}\n{GOOD}\n")
    found = read(tmp_path, text.format(h=HEADER, g=GOOD))
    assert found.train.x.tolist() == expected.train.x.tolist()


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    header, record = HEADER.removeprefix("pid,"), GOOD.removeprefix("p1,")
    assert len(read(tmp_path, f"\ufeff{header}\n{record}\n").train) == 1


def test_another_delimiter_and_other_names(tmp_path: Path) -> None:
    text = f"{HEADER}\n{GOOD}\n".replace(",", ";").replace("age", "ALTER").replace("out", "dx")
    loaded = read(tmp_path, text, delimiter=";", columns={"age": "ALTER", "out": "dx"})
    assert len(loaded.train) == 1
    with pytest.raises(Misconfigured, match=r"data.columns: the study has no column weight"):
        read(tmp_path, text, columns={"weight": "kg"})


def row(**changes: str) -> str:
    fields = dict(zip(HEADER.split(","), GOOD.split(","), strict=True))
    return ",".join({**fields, **changes}.values())


BAD_ROWS = [
    (row(age="secret"), "row 2 (line 3): column age: not a number"),
    (row(dose="1.0 secret"), "row 2 (line 3): column dose: not a number"),
    (row(sex="secret"), "row 2 (line 3): column sex: unknown category; allowed: f, m"),
    (row(out="secret"), "row 2 (line 3): column out: unknown label; allowed: 0, 1, 2"),
    (row(out=""), "row 2 (line 3): column out: the label is missing"),
    (row(part="secret"), 'row 2 (line 3): the split is none of "train", "test" and empty'),
    ("secret,50", "row 2 (line 3): 2 fields; the header has 9"),
    (GOOD + ",secret", "row 2 (line 3): 10 fields; the header has 9"),
    (row(age="\x00secret"), "row 2 (line 3): column age: not a number"),
]


@pytest.mark.parametrize(("bad", "expected"), BAD_ROWS, ids=[case[1][16:40] for case in BAD_ROWS])
def test_a_bad_row_stops_or_is_isolated_by_the_study(tmp_path: Path, bad: str, expected: str) -> None:
    text = f"{HEADER}\n{GOOD}\n{bad}\n{GOOD}\n"
    line = refusal(tmp_path, text)
    assert line.startswith(f": {expected}")
    assert "secret" not in line
    loaded = read(tmp_path, text, DROP)
    assert len(loaded.train) == 2
    assert loaded.isolated == {Isolated.BAD: 1}
    assert loaded.notes[0].startswith(expected)
    assert "secret" not in loaded.notes[0]


def test_a_missing_value_follows_its_features_rule(tmp_path: Path) -> None:
    loaded = read(tmp_path, f"{HEADER}\n{GOOD}\n{row(age='NA')}\n{row(dose='', rate='', pain='')}\n")
    assert len(loaded.train) == 2
    assert loaded.isolated == {Isolated.MISSING: 1}
    assert loaded.notes == ("row 2 (line 3): column age: missing",)


def test_notes_are_bounded(tmp_path: Path) -> None:
    loaded = read(tmp_path, "\n".join([HEADER, GOOD, *[row(age="x")] * 100]), DROP)
    assert loaded.isolated == {Isolated.BAD: 100}
    assert len(loaded.notes) == 20


def test_clamped_values_are_counted(tmp_path: Path) -> None:
    loaded = read(tmp_path, f"{HEADER}\n{GOOD}\n{row(age='900')}\n{row(age='1', dose='5')}\n")
    assert loaded.clamped == {"age": 2, "dose": 1}


FILES = [
    ("", ": line 1: no header; the file is empty"),
    (HEADER, ": no record to train on (held out: 0; left out: none)"),
    (HEADER.replace(",out", ",dx") + "\n", ": line 1: no column out | if the file names it otherwise"),
    (HEADER.replace("pain,ecg", "a,b") + "\n", ": line 1: no column pain, ecg"),
    (HEADER.replace("part", "p") + "\n" + GOOD, ": line 1: no column part"),
    (f"{HEADER}\n{GOOD}\n".replace(",", ";"), ": line 1: one column only; the delimiter looks like a semicolon"),
    (f"{HEADER}\n{GOOD}\n".replace(",", "\t"), ": line 1: one column only; the delimiter looks like a tab"),
    (HEADER.replace("dose", "age") + "\n", ": line 1: columns 2 and 3 have the same name"),
    (f"{HEADER}\n{GOOD}\n".encode("utf-16"), ": line 1: not UTF-8"),
    (f"{HEADER}\n{GOOD}\np\xe9\n".encode("latin-1"), ": line 3: not UTF-8 | export the file as UTF-8"),
    (f'{HEADER}\n"{GOOD}\n', ": line 2: not CSV (a quote is not closed"),
    ("p1,50,1,120,m,2,1,0,train\n", ": line 1: columns 3 and 7 have the same name"),
    (f"{HEADER}\n{row(part='test')}\n{row(part='')}", ": no record to train on (held out: 1; left out: 1 no_split)"),
    (f"{HEADER}\n{row(age='')}\n", ": no record to train on (held out: 0; left out: 1 missing)"),
]


@pytest.mark.parametrize(("text", "expected"), FILES, ids=[case[1][2:44] for case in FILES])
@pytest.mark.parametrize("study", [STUDY, DROP], ids=["stop", "drop"])
def test_files_that_are_refused(tmp_path: Path, text: str | bytes, expected: str, study: StudyFile) -> None:
    assert refusal(tmp_path, text, study).startswith(expected)


def test_a_file_without_a_header_shows_no_patient(tmp_path: Path) -> None:
    line = refusal(tmp_path, "secret1,41,1.5,120,m,2,1,0,train\n")
    assert "secret" not in line
    assert "no column pid" not in line
    assert "no column age, dose, rate" in line


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.csv", "No such file"), (tmp_path, "Is a directory")):
        settings = CsvSettings(kind="csv", path=path, split_column="part")
        with pytest.raises(Misconfigured, match=why):
            open_source(settings, key=KEY).load(STUDY)


def test_an_image_study_takes_no_csv(tmp_path: Path) -> None:
    assert "a CSV file in an image study" in refusal(tmp_path, HEADER, load(dumps(image_table())))


def test_ids_divide_and_must_be_there(tmp_path: Path) -> None:
    rows = "\n".join(row(pid=f"patient-{i}") for i in range(400))
    loaded = read(tmp_path, f"{HEADER}\n{rows}\n", split_column=None, id_column="pid", hold_out=0.25)
    assert len(loaded.train) + len(loaded.test) == 400
    assert 70 <= len(loaded.test) <= 130
    line = refusal(tmp_path, f"{HEADER}\n{row(pid='')}\n", split_column=None, id_column="pid")
    assert line.startswith(": row 1 (line 2): the id is missing")


def test_the_datas_own_split_goes_before_ids(tmp_path: Path) -> None:
    rows = "\n".join(row(pid=f"patient-{i}") for i in range(40))
    loaded = read(tmp_path, f"{HEADER}\n{rows}\n", id_column="pid", hold_out=0.9)
    assert (len(loaded.train), len(loaded.test)) == (40, 0)


def test_a_single_record(tmp_path: Path) -> None:
    loaded = read(tmp_path, f"{HEADER}\n{GOOD}\n", split_column=None, hold_out=0)
    assert (len(loaded.train), len(loaded.test)) == (1, 0)


def test_a_further_column_beside_each_record(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    others = GOOD.replace("p1", "p2").replace("train", "test"), GOOD.replace("p1", "p3"), GOOD.removeprefix("p1")
    path.write_text("\n".join([HEADER, GOOD, *others]))
    source = CsvSource(CsvSettings(kind="csv", path=path, split_column="part"), HoldOut(0, KEY))
    marked = source.load_marked(DROP, "pid")
    assert (marked.train, marked.test) == (("p1", "p3"), ("p2",))
    assert marked.loaded.isolated == {Isolated.BAD: 1}
    with pytest.raises(Misconfigured, match=r"row 4 \(line 5\): column pid: missing"):
        source.load_marked(STUDY, "pid")
    # without the mark the last row is a record as any other
    assert len(source.load(STUDY).train) == 3
