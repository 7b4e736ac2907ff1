"""A small study without torch: a study file, a model schema, and arrays that fit."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secureproto.study import file as study_file
from secureproto.wire import base64url, layouts, tensors
from secureproto.wire.messages import ModelSchema, StudyDescriptor, TensorEntry

Arrays = dict[str, NDArray[Any]]

TEMPLATE = """
name = "{name}"
title = "A test"
classes = ["no", "yes"]

[model]
name = "mlp"
embedding_width = {width}

[data]
kind = "tabular"
[[data.features]]
name = "age"
kind = "number"
min = 20
max = 80
[data.label]
column = "out"
values = {{ "0" = "no", "1" = "yes" }}

[training]
local_steps = 1
batch_size = 8
learning_rate = 0.05

[prototypes]
min_holders = {min_holders}

[relation]
representation = "prior"
normalisation = "softmax"
temperature = 0.1

[rounds]
total = {total}
quorum = {quorum}
deadline = "{deadline}"
grace = "{grace}"
participation = {participation}
{extra}
"""


@dataclass(frozen=True)
class SimStudy:
    """What a test may vary. `elements` is the size of the extractor's one large tensor."""

    name: str = "small"
    quorum: int = 1
    total: int = 5
    deadline: str = "10m"
    grace: str = "0s"
    participation: float = 1.0
    width: int = 4
    elements: int = 1000
    max_update_norm: float | None = None
    max_embedding_norm: float | None = None
    max_upload_bytes: int | None = None
    reports_loss: bool = False

    def file(self) -> bytes:
        """The study file."""
        bounds = {
            "max_update_norm": self.max_update_norm,
            "max_embedding_norm": self.max_embedding_norm,
            "max_upload_bytes": self.max_upload_bytes,
        }
        lines = [f"{key} = {value}" for key, value in bounds.items() if value is not None]
        extra = "\n".join(["[bounds]", *lines]) if lines else ""
        if self.reports_loss:
            extra += "\n[stopping]\nrelative_tolerance = 0.01\npatience = 1\n"
        return TEMPLATE.format(
            name=self.name,
            width=self.width,
            min_holders=1,
            total=self.total,
            quorum=self.quorum,
            deadline=self.deadline,
            grace=self.grace,
            participation=self.participation,
            extra=extra,
        ).encode()

    @property
    def model(self) -> ModelSchema:
        """Names, dtypes and shapes."""
        return ModelSchema(
            classes=2,
            embedding_width=self.width,
            extractor=(
                TensorEntry(name="weight", dtype="F32", shape=(self.elements,)),
                TensorEntry(name="batches", dtype="I64", shape=()),
            ),
            head=(
                TensorEntry(name="weight", dtype="F32", shape=(2, self.width)),
                TensorEntry(name="bias", dtype="F32", shape=(2,)),
            ),
            reports_loss=self.reports_loss,
        )

    def shared(self) -> Arrays:
        """The initial shared part."""
        return {
            "prototypes": np.zeros((2, self.width)),
            "prototype_age": np.full(2, -1, dtype=np.int64),
            "extractor.weight": np.linspace(-1, 1, self.elements, dtype=np.float32),
            "extractor.batches": np.array(0, dtype=np.int64),
        }

    def head(self) -> Arrays:
        """The initial head."""
        return {"head.weight": np.ones((2, self.width), np.float32), "head.bias": np.zeros(2, np.float32)}

    def shared_bytes(self) -> bytes:
        return b"".join(tensors.encode(layouts.shared_schema(self.model), self.shared()))

    def head_bytes(self) -> bytes:
        return b"".join(tensors.encode(layouts.head_schema(self.model), self.head()))

    def update(self, seed: int, shared: Arrays | None = None, head: Arrays | None = None) -> Arrays:
        """What a site could upload: its base, moved a little, and class sums of a few records."""
        rng = np.random.default_rng(seed)
        base, mine = shared or self.shared(), head or self.head()
        counts = rng.integers(3, 20, size=2)
        means = rng.uniform(0.1, 1.0, size=(2, self.width))
        arrays: Arrays = {"prototypes": np.column_stack([means * counts[:, None], counts.astype(float)])}
        if self.reports_loss:
            arrays["loss"] = np.array([1.0 / (seed + 1)])
        moved = {**{k: v for k, v in base.items() if k.startswith("extractor.")}, **mine}
        for name, array in moved.items():
            step = rng.normal(0, 0.01, size=array.shape)
            arrays[name] = array + 1 if array.dtype == np.int64 else (array + step).astype(np.float32)
        return arrays

    def descriptor(self, federation: str) -> StudyDescriptor:
        """The descriptor that an operator signs."""
        data, model = self.file(), self.model
        study_file.load(data)
        return StudyDescriptor(
            federation=federation,
            study=self.name,
            file=base64url.encode(data),
            study_digest=study_file.digest(data),
            model=model,
            schema_digest=model.digest(),
            initial_shared=sha256(self.shared_bytes()).hexdigest(),
            initial_head=sha256(self.head_bytes()).hexdigest(),
            created=1_800_000_000,
        )
