"""What to do about a file that cannot be read, in the words of who gave it to `--data`.

The sources are those of a site, and their hints name keys of a site's settings, which a simulation does not have.
Invariants: a message stays as it is; a hint that names no such key too.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from secureproto.errors import Misconfigured
from secureproto.simulation.data.reading import SourceOptions

_CHECK_PATH = "check the path given to --data, and the rights of what is there"
# a site's hint → that of a simulation
_HINTS = {
    "check data.path and rights": _CHECK_PATH,
    "check data.path": _CHECK_PATH,
    "set data.delimiter": "say it with --delimiter",
    "if the file names it otherwise, say so under data.columns; names are case-sensitive": (
        "rename the column in the file, or in a study file of your own; names are case-sensitive"
    ),
    "numpy.savez(path, x=..., y=...), or set its name": "name the arrays x and y: numpy.savez(path, x=..., y=...)",
    "check the path, the missing values of the features, and hold_out": (
        "check the path given to --data, the missing values of the features, and --split-column if given"
    ),
    "set data.kind to csv or npz": "give --data .csv or .npz files, or take a study of images",
    "set data.kind to image_folder or npz": "give --data image folders or .npz files, or take a study of a table",
}
_SIGNS = {"comma": "','", "semicolon": "';'", "tab": r"$'\t'", "bar": "'|'"}
_LOOKS_LIKE = re.compile(r"the delimiter looks like a (\w+),")
_ABSENT = re.compile(r": no column (.+)|: array (.+): not in the archive")


@contextmanager
def hints_for(options: SourceOptions) -> Iterator[None]:
    """Around a load: a Misconfigured of a site's source gets a hint that fits here."""
    try:
        yield
    except Misconfigured as error:
        raise Misconfigured(error.message, hint=_hint(error, options)) from None


def _hint(error: Misconfigured, options: SourceOptions) -> str:
    sign = _LOOKS_LIKE.search(error.message)
    if sign and sign[1] in _SIGNS:
        return f"give --delimiter {_SIGNS[sign[1]]}"
    absent = _ABSENT.search(error.message)
    if absent:
        names = {absent[2]} if absent[2] else set(absent[1].split(", "))
        named = {"--site-column": options.site_column, "--split-column": options.split_column}
        wrong = [option for option, name in named.items() if name in names]
        if wrong:
            return f"check {' and '.join(wrong)}; names are case-sensitive"
    return _HINTS.get(error.hint, error.hint)
