"""A study as it is signed, and all that the server knows of its model."""

from typing import Annotated, ClassVar

from pydantic import Field

from secureproto.wire.messages.base import Base64, Digest, Dtype, Message, Name, Time


class TensorEntry(Message):
    """Name, dtype and shape of one tensor of the model."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]{1,200}$")]
    dtype: Dtype
    shape: tuple[Annotated[int, Field(ge=0, le=2**31)], ...]


class ModelSchema(Message):
    """All that the server knows of a model: names, shapes and dtypes. Its digest is the schema digest."""

    LABEL: ClassVar[str] = "secureproto/v1/model-schema"
    classes: Annotated[int, Field(ge=2, le=100_000)]
    embedding_width: Annotated[int, Field(ge=1, le=2**20)]
    extractor: tuple[TensorEntry, ...]
    head: tuple[TensorEntry, ...]
    reports_loss: bool  # the study's stopping rule needs the training loss of each site


class StudyDescriptor(Message):
    """A study as the operator signs it: the file itself, the model's shape, the initial weights' digests."""

    LABEL: ClassVar[str] = "secureproto/v1/study"
    federation: Name
    study: Name
    file: Base64  # the TOML, byte for byte
    study_digest: Digest
    model: ModelSchema
    schema_digest: Digest
    initial_shared: Digest  # SHA-256 of the plaintext in the layout `shared_schema(model)`
    initial_head: Digest  # SHA-256 of the plaintext in the layout `head_schema(model)`
    created: Time
