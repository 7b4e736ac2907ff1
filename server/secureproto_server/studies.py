"""Studies on the server: the signed descriptor, and all that is derived from it. The server runs no model code.

Invariants: a descriptor is taken in only when the operator's signature, the file's digest, the schema's digest and
the initial weights' digests hold; what is derived from it (options, schemas, bounds) is derived once.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from secureproto.aggregation.options import Options, aggregation_options
from secureproto.aggregation.stopping import StoppingRule
from secureproto.crypto.envelope import Envelope, unverified
from secureproto.crypto.sealing import sealed_length
from secureproto.errors import Conflict, Misconfigured, NotFound, Rejected
from secureproto.study import file as study_file
from secureproto.study.schema import StudyFile
from secureproto.wire import base64url, layouts
from secureproto.wire.messages import StudyDescriptor
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import TensorSchema
from secureproto_server.storage.records import Study
from secureproto_server.storage.store import Transaction


@dataclass(frozen=True)
class Plan:
    """A study's descriptor with what follows from it."""

    descriptor: StudyDescriptor

    @cached_property
    def file(self) -> StudyFile:
        return study_file.load(base64url.decode(self.descriptor.file), name=self.descriptor.study)

    @cached_property
    def upload_schema(self) -> TensorSchema:
        return layouts.upload_schema(self.descriptor.model)

    @cached_property
    def shared_schema(self) -> TensorSchema:
        return layouts.shared_schema(self.descriptor.model)

    @cached_property
    def head_schema(self) -> TensorSchema:
        return layouts.head_schema(self.descriptor.model)

    @cached_property
    def options(self) -> Options:
        return aggregation_options(self.file)

    @cached_property
    def stopping(self) -> StoppingRule:
        rounds, stopping = self.file.rounds, self.file.stopping
        if stopping is None:
            return StoppingRule(rounds.total)
        return StoppingRule(rounds.total, stopping.relative_tolerance, stopping.patience)


class Plans:
    """Plans by descriptor, derived once: a descriptor never changes."""

    def __init__(self) -> None:
        self._known: dict[str, Plan] = {}

    def of(self, row: Study) -> Plan:
        """The plan of a stored study."""
        key = sha256(row.descriptor).hexdigest()
        if key not in self._known:
            self._known[key] = Plan(unverified(row.descriptor, StudyDescriptor, Envelope))
        return self._known[key]


PLANS = Plans()  # pure derivation from immutable bytes: a cache, not state


def require(tx: Transaction, study: str) -> Study:
    """The study's row. Raises NotFound."""
    row = tx.get(Study, study)
    if row is None:
        raise NotFound(f"there is no study {study}", hint="secureproto study list")
    return row


def check(descriptor: StudyDescriptor, *, shared: bytes, head: bytes) -> Plan:
    """A new study's plan, everything in its descriptor compared with what it describes.

    Raises:
        Misconfigured: the study file does not pass its own checks, or its bound on uploads excludes its own model.
        Rejected: SCHEMA or POLICY_DIGEST, when digests, lengths or names do not agree.
        Conflict: a head with integer tensors, of which no mixture can be made.
    """
    plan = Plan(descriptor)
    data = base64url.decode(descriptor.file)
    if study_file.digest(data) != descriptor.study_digest or plan.file.name != descriptor.study:
        raise Rejected(Reason.POLICY_DIGEST, "the study's digest or name is not that of its file")
    if plan.file.privacy is not None:
        # without a ledger nothing could be charged before it leaves: a promise that is not kept is not made
        raise Misconfigured(
            f"study {descriptor.study}: [privacy]: this version runs such a study in simulate only",
            hint="leave the section out, and every receipt says unprotected; or wait for the ledger",
        )
    model = descriptor.model
    if model.digest() != descriptor.schema_digest:
        raise Rejected(Reason.SCHEMA, "the schema digest is not that of the model")
    if model.classes != len(plan.file.classes) or model.embedding_width != plan.file.model.embedding_width:
        raise Rejected(Reason.SCHEMA, "the model's classes or width are not those of the study file")
    if any(entry.dtype == "I64" for entry in model.head):
        raise Conflict("the head has an integer tensor: heads are mixed, and integers cannot be")
    if model.reports_loss != (plan.file.stopping is not None):
        raise Rejected(Reason.SCHEMA, "the model reports a loss exactly when the study has a stopping rule")
    for part, schema, digest in (
        (shared, plan.shared_schema, descriptor.initial_shared),
        (head, plan.head_schema, descriptor.initial_head),
    ):
        if len(part) != schema.plaintext_length or sha256(part).hexdigest() != digest:
            raise Rejected(Reason.SCHEMA, "the initial weights are not the ones described")
    _check_size(plan)
    return plan


def _check_size(plan: Plan) -> None:
    """Every round of a study whose uploads are all too large would miss its quorum: told before, not then."""
    size, bound = sealed_length(plan.upload_schema.plaintext_length), plan.file.bounds.max_upload_bytes
    if size > bound:
        raise Misconfigured(
            f"study {plan.file.name}: bounds.max_upload_bytes: {bound} is less than an upload of its model has; "
            f"allowed: {size} or more"
        )
