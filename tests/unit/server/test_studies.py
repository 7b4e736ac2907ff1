from collections.abc import Callable
from pathlib import Path

import pytest

from secureproto.crypto.envelope import sign, sign_threshold
from secureproto.crypto.keys import FileSigner
from secureproto.crypto.sealing import sealed_length
from secureproto.errors import Conflict, Misconfigured, NotFound, Rejected
from secureproto.study import file as study_file
from secureproto.wire import base64url, layouts
from secureproto.wire.messages import Person, StudyDescriptor, TensorEntry
from secureproto.wire.reasons import Reason
from secureproto_server import creation, studies, views
from secureproto_server.storage.records import Root
from support.parts import NAME, Parts, parts_in
from support.sim_site import Keys
from support.sim_study import SimStudy

STUDY = SimStudy()
Change = Callable[[StudyDescriptor], dict[str, object]]
WRONG = "0" * 64
INTEGER = TensorEntry(name="count", dtype="I64", shape=())


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return parts_in(tmp_path)


def body(parts: Parts, descriptor: StudyDescriptor, signer: FileSigner | None = None) -> bytes:
    envelope = sign(descriptor, signer or parts.operator)
    return creation.parts(envelope, STUDY.shared_bytes(), STUDY.head_bytes())


@pytest.mark.parametrize(
    "change",
    [
        lambda d: {"study_digest": WRONG},
        lambda d: {"study": "other"},
        lambda d: {"schema_digest": WRONG},
        lambda d: {"initial_shared": WRONG},
        lambda d: {"initial_head": WRONG},
        lambda d: {"file": base64url.encode(b"nonsense = 1\n")},
        lambda d: _model(d, classes=3),
        lambda d: _model(d, reports_loss=True),
        lambda d: _model(d, head=(INTEGER,)),
    ],
)
def test_a_descriptor_agrees_with_everything_it_describes(change: Change) -> None:
    descriptor = STUDY.descriptor(NAME)
    studies.check(descriptor, shared=STUDY.shared_bytes(), head=STUDY.head_bytes())
    changed = descriptor.model_copy(update=change(descriptor))
    with pytest.raises((Rejected, Misconfigured, Conflict)):
        studies.check(changed, shared=STUDY.shared_bytes(), head=STUDY.head_bytes())


def test_a_bound_that_excludes_the_studys_own_model_is_told_at_once() -> None:
    length = sealed_length(layouts.upload_schema(STUDY.model).plaintext_length)
    for bound in (length, length - 1):
        study = SimStudy(max_upload_bytes=bound)
        shared, head = study.shared_bytes(), study.head_bytes()
        if bound == length:
            studies.check(study.descriptor(NAME), shared=shared, head=head)
            continue
        with pytest.raises(Misconfigured, match=f"bounds.max_upload_bytes: {bound} is less .* allowed: {length} or"):
            studies.check(study.descriptor(NAME), shared=shared, head=head)


PRIVACY = """
[privacy]
max_epsilon_study = 8.0
max_delta = 1e-5
[privacy.prototypes]
noise_multiplier = 4.0
"""


def test_privacy_that_nothing_would_enforce_is_not_promised() -> None:
    descriptor = STUDY.descriptor(NAME)
    file = STUDY.file().replace(b"[data]\n", b"normalise_embedding = true\n[data]\n") + PRIVACY.encode()
    text = {"file": base64url.encode(file), "study_digest": study_file.digest(file)}
    with pytest.raises(Misconfigured, match=r"\[privacy\]: this version runs such a study in simulate only"):
        studies.check(descriptor.model_copy(update=text), shared=STUDY.shared_bytes(), head=STUDY.head_bytes())


def test_a_study_is_signed_by_somebody_of_the_root_document(parts: Parts) -> None:
    descriptor = STUDY.descriptor(NAME)
    for data, reason in (
        (body(parts, descriptor, FileSigner(Keys.make().signing)), "unknown_key"),
        (body(parts, STUDY.descriptor("another")), "wrong_federation"),
        (body(parts, descriptor)[:-1], "malformed"),
        (body(parts, descriptor) + b"x", "malformed"),
        (b"", "malformed"),
    ):
        with pytest.raises(Rejected) as caught:
            creation.create(parts.services, parts.person, data)
        assert caught.value.reason == reason
    with pytest.raises(NotFound):
        views.study(parts.services, "small")


def test_the_same_study_again_changes_nothing_and_another_is_refused(parts: Parts) -> None:
    descriptor = STUDY.descriptor(NAME)
    creation.create(parts.services, parts.person, body(parts, descriptor))
    size = parts.services.log.size(parts.services.store)
    later = descriptor.model_copy(update={"created": descriptor.created + 9})
    creation.create(parts.services, parts.person, body(parts, later))
    assert parts.services.log.size(parts.services.store) == size
    other = SimStudy(total=7).descriptor(NAME)
    with pytest.raises(Conflict, match="already"):
        creation.create(parts.services, parts.person, body(parts, other))


def _model(descriptor: StudyDescriptor, **changes: object) -> dict[str, object]:
    model = descriptor.model.model_copy(update=changes)
    return {"model": model, "schema_digest": model.digest()}


def test_only_an_operators_signature_makes_a_study(parts: Parts) -> None:
    """As the sites demand: one that an officer signed would be created, and then refused by everybody."""
    officer = FileSigner(Keys.make().signing)
    person = Person(name="olga", organisation="x", role="privacy_officer", key=officer.public.b64)
    before = parts.root
    after = before.model_copy(update={"version": before.version + 1, "people": (*before.people, person)})
    with parts.services.store.transaction("two people") as tx:
        tx.insert(Root(after.version, after.digest(), sign_threshold(after, parts.operator)))
    with pytest.raises(Rejected) as caught:
        creation.create(parts.services, parts.person, body(parts, STUDY.descriptor(NAME), officer))
    assert caught.value.reason is Reason.UNKNOWN_KEY
    creation.create(parts.services, parts.person, body(parts, STUDY.descriptor(NAME)))
