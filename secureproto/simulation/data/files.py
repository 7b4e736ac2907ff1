"""The user's own files as a pool: CSV, NumPy archives, folders of images; read by the sources that a site reads with.

Invariants: a record has the vector here that it has at a site with the same study; the records of a file keep their
order, its training part first; several files are as many natural sites, called by the files' names.
"""

import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from secureproto.data.arrays import NpzSource
from secureproto.data.gathering import MAX_NOTES, Marked
from secureproto.data.holdout import KEY_BYTES, HoldOut
from secureproto.data.images import shown
from secureproto.data.settings import CsvSettings, ImageFolderSettings, NpzSettings
from secureproto.data.source import Isolated, Loaded
from secureproto.data.tabular import CsvSource
from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.simulation.data.hints import hints_for
from secureproto.simulation.data.reading import Reading, SourceOptions
from secureproto.simulation.population import MAX_SITE_NAME, Pool, can_name_a_site
from secureproto.study.schema import StudyFile

CSV, NPZ, FOLDER = ".csv", ".npz", "a folder of images"

NOTHING_HELD_OUT = HoldOut(0, bytes(KEY_BYTES))  # the parts are drawn later, from the pool: this key divides nothing


def is_path(text: str) -> bool:
    """Whether a text that is no data set's name is meant as a path."""
    path = Path(text)
    return path.suffix.lower() in (CSV, NPZ) or "/" in text or isinstance(_mode(path), int)


def read_files(paths: Sequence[Path], study: StudyFile, options: SourceOptions) -> Reading:
    """All records of the files. The sites of a single file are those of `options.site_column`, or it has none.

    Raises:
        Misconfigured: what a source raises; files of different kinds or with one name; options that do not fit.
    """
    _check(paths, options)
    with hints_for(options):
        loads = [_load(path, study, options) for path in paths]
    if len(paths) > 1:
        share = max(1, MAX_NOTES // len(paths))  # one bad file does not hide the others
        loads = [_of_file(load.loaded, path, share) for load, path in zip(loads, paths, strict=True)]
    natural = len(paths) > 1 or options.site_column is not None
    return reading(loads, natural=natural, divided=options.split_column is not None)


def _of_file(loaded: Loaded, path: Path, share: int) -> Marked:
    """The records of one file among several: marked with its site, its notes (so many at most) with its name."""
    notes = tuple(f"{shown(path.name)}: {note}" for note in loaded.notes[:share])
    return _marked(replace(loaded, notes=notes), _site(path))


def reading(loads: Sequence[Marked], *, natural: bool, divided: bool) -> Reading:
    """Loads as one pool. `natural`: the marks are the records' sites; `divided`: the hold-outs are a test part."""
    parts = [part for load in loads for part in (load.loaded.train, load.loaded.test)]
    records = Records(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))
    sites = [site for load in loads for site in (*load.train, *load.test)]
    held_out = [side for load in loads for side in ([False] * len(load.train) + [True] * len(load.test))]
    left_out, clamped = Counter[Isolated](), Counter[str]()
    for load in loads:
        left_out.update(load.loaded.isolated)
        clamped.update(load.loaded.clamped)
    return Reading(
        Pool(records, np.array(sites, dtype=np.str_) if natural else None, np.array(held_out) if divided else None),
        dict(left_out),
        tuple(note for load in loads for note in load.loaded.notes)[:MAX_NOTES],
        dict(clamped),
    )


def _check(paths: Sequence[Path], options: SourceOptions) -> None:
    kinds = sorted({_kind(path) for path in paths})
    if len(kinds) > 1:
        raise Misconfigured(
            f"data: different kinds of files together: {', '.join(kinds)}", hint="write them all in one format"
        )
    if kinds != [CSV] and options.delimiter != SourceOptions.delimiter:
        raise Misconfigured(f"--delimiter {options.delimiter!r}: is for CSV files", hint="leave it out")
    if kinds == [FOLDER] and (options.site_column or options.split_column):
        raise Misconfigured(
            f"{paths[0]}: a folder of images has no columns", hint="leave out the site column and the split column"
        )
    if len(paths) == 1:
        return
    if options.site_column is not None:
        raise Misconfigured(
            f"data: a site column and {len(paths)} files, of which each is a site",
            hint="leave the site column out, or give one file of all sites",
        )
    for name, count in Counter(_site(path) for path in paths).items():
        if count > 1:
            raise Misconfigured(f"data: {count} files are called {name}, as their sites would be", hint="rename them")
    _check_sites({_site(path) for path in paths}, "data: the names of the files")


def _site(path: Path) -> str:
    return path.name if _is_folder(path) else path.stem


def _kind(path: Path) -> str:
    mode, suffix = _mode(path), path.suffix.lower()
    if _is_folder(path):
        if suffix not in (CSV, NPZ):
            return FOLDER
        mode = f"is a folder, and a {suffix} file is one file"
    elif suffix in (CSV, NPZ):
        return suffix  # where it cannot be read, its reader says why
    problem = mode if isinstance(mode, str) else "is of no kind that is read here"
    raise Misconfigured(f"{path}: {problem}", hint=f"allowed: {CSV}, {NPZ}, {FOLDER} (one folder a class)")


def _is_folder(path: Path) -> bool:
    mode = _mode(path)
    return isinstance(mode, int) and stat.S_ISDIR(mode)


def _mode(path: Path) -> int | str:
    """The mode of what is there, or why it cannot be seen."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return "there is no such file or folder"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _load(path: Path, study: StudyFile, options: SourceOptions) -> Marked:
    source: CsvSource | NpzSource
    match _kind(path):
        case ".csv":
            csv = CsvSettings(
                kind="csv",
                path=path,
                delimiter=options.delimiter,
                split_column=options.split_column,
                hold_out=0,
            )
            source = CsvSource(csv, NOTHING_HELD_OUT)
        case ".npz":
            source = NpzSource(
                NpzSettings(kind="npz", path=path, split=options.split_column, hold_out=0), NOTHING_HELD_OUT
            )
        case _:
            from secureproto.data.images import ImageFolderSource  # here: tables need no image library

            folder = ImageFolderSettings(kind="image_folder", path=path)
            return _marked(ImageFolderSource(folder, NOTHING_HELD_OUT).load(study))
    if options.site_column is None:
        return _marked(source.load(study))
    marked = source.load_marked(study, options.site_column)
    _check_sites({*marked.train, *marked.test}, f"{path}: column {options.site_column}")
    return marked


def _marked(loaded: Loaded, site: str = "") -> Marked:
    return Marked(loaded, (site,) * len(loaded.train), (site,) * len(loaded.test))


def _check_sites(names: set[str], where: str) -> None:
    """Names of sites stand in file names, so what a file system or a terminal could stumble over is refused."""
    bad = sum(not can_name_a_site(name) for name in names)
    if bad:
        raise Misconfigured(
            f"{where}: {bad} of {len(names)} cannot name a site",
            hint=f"allowed: up to {MAX_SITE_NAME} printable characters, no slash, no point at the beginning",
        )
