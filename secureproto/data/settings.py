"""Where the data lie and how they are divided: the `[data]` table of the site's settings, one model a `kind`.

What a column means is the study's matter and the same everywhere; here stands only what differs between sites:
paths, delimiters, the site's own names of the columns, and which column is the record's id or its split.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

HoldOutShare = Annotated[float, Field(ge=0, lt=1)]
# Where a site chooses what it uses (`learning.choice`):
FOLD_SHARE = 0.2  # of the training records judge at a time (`data.folds`)
LONGER = 10  # local trainings, one after the other, of the candidates that are trained longest


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CsvSettings(_Settings):
    """A CSV file with a header, UTF-8 (a byte-order mark is taken).

    `columns`: the study's name of a column → the file's own, where they differ. `split_column`: texts "train",
    "test", or empty for neither; with it nothing is held out by `id_column`, which then only names records.
    """

    kind: Literal["csv"]
    path: Path
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    columns: dict[str, str] = {}
    id_column: str | None = None
    split_column: str | None = None
    hold_out: HoldOutShare = 0.2

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.split_column is None and self.id_column is None and self.hold_out > 0:
            raise ValueError("hold_out needs id_column or split_column; or set hold_out = 0")
        return self


class NpzSettings(_Settings):
    """A NumPy archive with the arrays `x`, `y` and, for the division, `id` or `split`."""

    kind: Literal["npz"]
    path: Path
    x: str = "x"
    y: str = "y"
    id: str | None = None
    split: str | None = None
    hold_out: HoldOutShare = 0.2

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.split is not None and self.id is not None:
            raise ValueError("split and id are both given; allowed: one of them")
        if self.split is None and self.id is None and self.hold_out > 0:
            raise ValueError("hold_out needs id or split; or set hold_out = 0")
        return self


class ImageFolderSettings(_Settings):
    """One folder a class, with image files in it; an image's id is its path below `path`."""

    kind: Literal["image_folder"]
    path: Path
    hold_out: HoldOutShare = 0.2


class TorchvisionSettings(_Settings):
    """A published data set by its torchvision name; its own test part is the hold-out.

    Only data sets whose files are plain arrays of bytes: those of CIFAR are pickles. `download` fetches what is
    not under `root`; without it nothing is ever fetched.
    """

    kind: Literal["torchvision"]
    name: Literal["MNIST", "FashionMNIST", "KMNIST", "USPS"]
    root: Path
    download: bool = False


class FactorySettings(_Settings):
    """A data source of the site's own, `package.module:factory`; `options` are passed to it as they are."""

    kind: Literal["factory"]
    factory: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")]
    options: dict[str, object] = {}
    hold_out: HoldOutShare = 0.2


DataSettings = Annotated[
    CsvSettings | NpzSettings | ImageFolderSettings | TorchvisionSettings | FactorySettings,
    Field(discriminator="kind"),
]


def below(settings: DataSettings, base: Path) -> DataSettings:
    """The settings with relative paths taken from `base`, the directory of the settings file."""
    match settings:
        case CsvSettings() | NpzSettings() | ImageFolderSettings():
            return settings.model_copy(update={"path": base / settings.path})
        case TorchvisionSettings():
            return settings.model_copy(update={"root": base / settings.root})
        case FactorySettings():
            return settings
