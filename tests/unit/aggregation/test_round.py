"""A whole round through the codec: order, partial participation, what is published, what is refused."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.aggregation.options import Options
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.aggregation.round import RoundAccumulator, UploadLayout, aggregate
from secureproto.errors import Misconfigured, Rejected
from secureproto.wire.layouts import head_schema, shared_schema, upload_schema
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import Piece, Tensor, TensorSchema, encode
from support.uploads import Federation, Shape, federation, model, pieces

SHAPE = Shape(sites=12)  # site-10 and site-11 sort before site-2


def _edited(round_: Federation, site: str, name: str, values: NDArray[Any]) -> Federation:
    return replace(round_, uploads={**round_.uploads, site: {**round_.uploads[site], name: values}})


def test_what_is_published_fits_the_wire() -> None:
    round_ = federation(1, SHAPE)
    result = round_.run(Options())
    shared = b"".join(bytes(chunk) for chunk in encode(shared_schema(model(SHAPE)), result.shared_arrays()))
    assert len(shared) == shared_schema(model(SHAPE)).plaintext_length
    for site in (None, "site-10"):
        arrays = result.head_arrays(site)
        assert sum(len(chunk) for chunk in encode(head_schema(model(SHAPE)), arrays)) > 0
    assert result.head_arrays("site-2")["head.bias"] == result.heads["site-2"][-1:].astype(np.float32)
    assert result.head_arrays()["head.bias"] == result.mean_head[-1:].astype(np.float32)


def test_sites_outside_keep_their_heads_and_count_for_the_late_joiner() -> None:
    round_ = federation(2, Shape(sites=2))
    outside = {"zulu": np.full(7, 5.0), "site-1": np.full(7, 99.0)}
    result = round_.run(Options(), outside=outside)
    alone = round_.run(Options())
    assert list(result.heads) == ["site-0", "site-1", "zulu"]
    assert result.heads["zulu"].tolist() == [5.0] * 7
    assert result.heads["site-1"].tobytes() == alone.heads["site-1"].tobytes()
    np.testing.assert_allclose(result.mean_head, (alone.mean_head * 2 + 5.0) / 3, rtol=1e-14)


def test_the_loss_is_the_federations_and_weighs_by_records() -> None:
    round_ = federation(3, Shape(sites=3), reports_loss=True)
    weights = [float(u["prototypes"][:, -1].sum()) for u in round_.uploads.values()]
    losses = [float(u["loss"][0]) for u in round_.uploads.values()]
    assert round_.run(Options()).loss == pytest.approx(np.average(losses, weights=weights), rel=1e-12)
    assert federation(3, Shape(sites=3)).run(Options()).loss is None


def test_uploads_are_opened_one_at_a_time_in_the_order_of_ids() -> None:
    round_ = federation(4, SHAPE)
    opened: list[str] = []

    def stream(site: str) -> Iterable[Piece]:
        opened.append(site)
        return pieces(round_.schema, round_.uploads[site])

    accumulator = RoundAccumulator(
        round_.schema, Options(), previous=round_.previous, sites=sorted(round_.uploads, reverse=True)
    )
    aggregate({site: (lambda site=site: stream(site)) for site in round_.uploads}, accumulator)  # type: ignore[misc]
    assert opened == sorted(round_.uploads)


BAD_SUMS: dict[str, tuple[tuple[int, int], float, Reason]] = {
    "negative count": ((0, -1), -3.0, Reason.SCHEMA),
    "half a record": ((0, -1), 7.25, Reason.SCHEMA),
    "more records than there can be": ((0, -1), 2.0**60, Reason.SCHEMA),
    "count 0 with a sum": ((0, -1), 0.0, Reason.SCHEMA),
    "NaN": ((0, 2), np.nan, Reason.NON_FINITE),
    "infinity": ((1, 0), -np.inf, Reason.NON_FINITE),
    "infinite count": ((0, -1), np.inf, Reason.NON_FINITE),
    "beyond all bounds": ((0, 0), 1e200, Reason.NORM_BOUND),
}


@pytest.mark.parametrize("name", BAD_SUMS)
@pytest.mark.parametrize("cut", [11, 1 << 20])
def test_impossible_class_sums_are_refused(name: str, cut: int) -> None:
    where, value, reason = BAD_SUMS[name]
    round_ = federation(5, Shape(sites=3), empty=0.0)
    sums = round_.uploads["site-1"]["prototypes"].copy()
    sums[where] = value
    with pytest.raises(Rejected) as caught:
        _edited(round_, "site-1", "prototypes", sums).run(Options(), cut=cut)
    assert caught.value.reason is reason
    _names_the_site_and_no_number(caught.value)


@pytest.mark.parametrize("name", ["head.weight", "head.bias", "extractor.weight", "extractor.bias", "loss"])
def test_poison_is_refused_wherever_it_stands(name: str) -> None:
    round_ = federation(6, Shape(sites=3), reports_loss=True)
    values = round_.uploads["site-1"][name].copy()
    values[-1] = np.nan
    with pytest.raises(Rejected) as caught:
        _edited(round_, "site-1", name, values).run(Options())
    assert caught.value.reason is Reason.NON_FINITE
    _names_the_site_and_no_number(caught.value)


def _names_the_site_and_no_number(error: Rejected) -> None:
    assert "'site-1'" in error.message
    text = (error.message + error.hint).replace("site-1", "")
    assert not any(character.isdigit() for character in text)


def test_the_linear_form_by_name_refuses_negative_sums_and_says_whose() -> None:
    round_ = federation(7, Shape(sites=3), signed=False, empty=0.0)
    assert round_.run(Options(normalisation="row_sum", form="linear")).form == "linear"
    sums = round_.uploads["site-1"]["prototypes"].copy()
    sums[0, 0] = -0.5
    edited = _edited(round_, "site-1", "prototypes", sums)
    with pytest.raises(Rejected) as caught:
        edited.run(Options(normalisation="row_sum", form="linear"))
    assert caught.value.reason is Reason.SCHEMA
    _names_the_site_and_no_number(caught.value)
    assert edited.run(Options()).form == "matrix"


def test_a_round_without_records_is_refused() -> None:
    round_ = federation(8, Shape(sites=1))
    with pytest.raises(Rejected, match="no site"):
        _edited(round_, "site-0", "prototypes", np.zeros((3, 6))).run(Options())


@pytest.mark.parametrize("kept", [0, 1, 3, 5])
def test_an_upload_that_stops_is_refused_and_ends_the_accumulator(kept: int) -> None:
    round_ = federation(9, Shape(sites=1))
    stream = list(pieces(round_.schema, round_.uploads["site-0"]))
    accumulator = RoundAccumulator(round_.schema, Options(), previous=round_.previous, sites=["site-0"])
    with pytest.raises(Rejected, match="'site-0'") as caught:
        accumulator.accept("site-0", stream[:kept])
    assert caught.value.reason is Reason.SCHEMA
    with pytest.raises(ValueError, match="half-way"):
        accumulator.accept("site-0", stream)
    with pytest.raises(ValueError, match="not every"):
        accumulator.result()


@pytest.mark.parametrize("name", ["head.weight", "head.bias", "loss", "extractor.batches", "prototypes"])
def test_an_upload_with_a_tensor_left_out_is_refused(name: str) -> None:
    round_ = federation(13, Shape(sites=1), reports_loss=True)
    stream = [p for p in pieces(round_.schema, round_.uploads["site-0"]) if p.tensor.name != name]
    accumulator = RoundAccumulator(round_.schema, Options(), previous=round_.previous, sites=["site-0"])
    with pytest.raises((Rejected, ValueError), match=r"ends before its last tensor|before the prototypes"):
        accumulator.accept("site-0", stream)


def test_a_stream_that_fails_at_its_end_ends_the_accumulator() -> None:
    round_ = federation(10, Shape(sites=1))

    def stream() -> Iterable[Piece]:
        yield from pieces(round_.schema, round_.uploads["site-0"])
        raise Rejected(Reason.DECRYPT_FAILED, "the body does not decrypt")

    accumulator = RoundAccumulator(round_.schema, Options(), previous=round_.previous, sites=["site-0"])
    with pytest.raises(Rejected, match="decrypt"):
        accumulator.accept("site-0", stream())
    with pytest.raises(ValueError, match="not every"):
        accumulator.result()


def test_misuse_is_refused() -> None:
    round_ = federation(11, Shape(sites=2))
    fresh = {"previous": round_.previous, "sites": ["site-0", "site-1"]}
    accumulator = RoundAccumulator(round_.schema, Options(), **fresh)  # type: ignore[arg-type]  # a mixed dict
    with pytest.raises(ValueError, match="next in order"):
        accumulator.accept("site-1", [])
    with pytest.raises(ValueError, match="not every"):
        accumulator.result()
    stream = list(pieces(round_.schema, round_.uploads["site-0"]))
    with pytest.raises(ValueError, match="before the prototypes"):
        accumulator.accept("site-0", stream[-1:])
    with pytest.raises(ValueError, match="without an upload"):
        RoundAccumulator(round_.schema, Options(), previous=round_.previous, sites=[])
    with pytest.raises(ValueError, match="previous prototypes"):
        RoundAccumulator(round_.schema, Options(), previous=GlobalPrototypes.absent(2, 2), sites=["a"])


def test_a_result_is_given_once() -> None:
    round_ = federation(12, Shape(sites=1))
    accumulator = RoundAccumulator(round_.schema, Options(), previous=round_.previous, sites=["site-0"])
    accumulator.accept("site-0", pieces(round_.schema, round_.uploads["site-0"]))
    accumulator.result()
    with pytest.raises(ValueError, match="not every"):
        accumulator.result()


def test_a_layout_that_is_not_an_uploads_is_refused() -> None:
    good = upload_schema(model(Shape())).tensors
    with pytest.raises(ValueError, match="begins with prototypes"):
        UploadLayout(TensorSchema(good[1:]))
    with pytest.raises(ValueError, match="nothing else"):
        UploadLayout(TensorSchema((*good, Tensor("more", "F32", (1,)))))
    with pytest.raises(Misconfigured, match=r"head\.steps"):
        UploadLayout(TensorSchema((*good, Tensor("head.steps", "I64", ()))))


def test_a_head_goes_flat_and_back() -> None:
    layout = UploadLayout(upload_schema(model(Shape()))).head
    arrays: dict[str, NDArray[Any]] = {
        "head.weight": np.arange(6, dtype=np.float32),
        "head.bias": np.array([9], dtype=np.float32),
    }
    flat = layout.flatten(arrays)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 9]
    back = layout.split(flat)
    assert all((back[name] == arrays[name]).all() and back[name].dtype == np.float32 for name in arrays)
    with pytest.raises(ValueError, match=r"head\.bias"):
        layout.flatten({"head.weight": arrays["head.weight"]})
    with pytest.raises(ValueError, match="length"):
        layout.split(flat[:-1])
