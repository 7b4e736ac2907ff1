"""The streamed mean of extractors."""

import tracemalloc

import numpy as np
import pytest

from secureproto.aggregation.extractor import ExtractorMean
from secureproto.errors import Rejected
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import Tensor

TENSORS = (Tensor("w", "F32", (2, 3)), Tensor("steps", "I64", ()), Tensor("none", "F64", (0, 4)))


def _add(mean: ExtractorMean, site: str, weight: float, w: list[float], steps: int) -> None:
    mean.begin(weight, site=site)
    mean.add("w", 0, np.array(w, dtype=np.float32))
    mean.add("steps", 0, np.array([steps], dtype=np.int64))
    mean.end()


def test_weights_are_the_records_and_integers_take_the_maximum() -> None:
    mean = ExtractorMean(TENSORS)
    _add(mean, "a", 1, [1, 2, 3, 4, 5, 6], -7)
    _add(mean, "b", 3, [5, 6, 7, 8, 9, 10], -9)
    _add(mean, "c", 0, [90, 90, 90, 90, 90, 90], -2)
    found = mean.result()
    assert found["w"].tolist() == [[4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
    assert found["w"].dtype == np.float64
    assert found["steps"] == -2
    assert found["steps"].shape == ()
    assert found["none"].shape == (0, 4)


def test_sums_are_float64_although_the_upload_is_float32() -> None:
    mean = ExtractorMean([Tensor("w", "F32", (1,))])
    for site in range(3):
        mean.begin(2**24 + site, site=str(site))
        mean.add("w", 0, np.array([0.1], dtype=np.float32))
        mean.end()
    assert mean.result()["w"][0] == pytest.approx(float(np.float32(0.1)), rel=1e-15)


def test_cuts_change_no_bit_also_beyond_a_block() -> None:
    generator = np.random.default_rng(3)
    uploads = generator.normal(size=(3, 100_000))
    results = []
    for cut in (100_000, 32_768, 7_919):
        mean = ExtractorMean([Tensor("w", "F64", (100_000,))])
        for site, values in enumerate(uploads):
            mean.begin(0.3 + site, site=str(site))
            for start in range(0, values.size, cut):
                mean.add("w", start, values[start : start + cut])
            mean.end()
        results.append(mean.result()["w"].tobytes())
    assert len(set(results)) == 1


def test_memory_does_not_grow_with_the_sites() -> None:
    size = 500_000
    piece = np.ones(50_000, dtype=np.float32)

    def peak(sites: int) -> int:
        tracemalloc.start()
        mean = ExtractorMean([Tensor("w", "F32", (size,))])
        for site in range(sites):
            mean.begin(1, site=str(site))
            for start in range(0, size, piece.size):
                mean.add("w", start, piece)
            mean.end()
        mean.result()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    one, many = peak(1), peak(12)
    assert many < one + 50_000
    assert many < 1.25 * 8 * size


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (np.nan, Reason.NON_FINITE),
        (np.inf, Reason.NON_FINITE),
        (-1e101, Reason.NORM_BOUND),
        (1e300, Reason.NORM_BOUND),
    ],
)
def test_a_poisoned_tensor_is_refused_by_name_of_site_and_tensor(bad: float, reason: Reason) -> None:
    mean = ExtractorMean([Tensor("extractor.w", "F64", (4,))])
    mean.begin(0, site="north")
    with pytest.raises(Rejected, match=r"^site 'north': tensor 'extractor\.w' ") as caught:
        mean.add("extractor.w", 0, np.array([1.0, 2.0, bad, 4.0]))
    assert caught.value.reason is reason
    assert str(bad) not in str(caught.value)


def test_an_upload_that_ends_early_is_refused() -> None:
    mean = ExtractorMean(TENSORS)
    mean.begin(1, site="north")
    mean.add("w", 0, np.zeros(5, dtype=np.float32))
    with pytest.raises(Rejected, match="north") as caught:
        mean.end()
    assert caught.value.reason is Reason.SCHEMA


def test_a_round_without_a_record_has_no_mean() -> None:
    mean = ExtractorMean(TENSORS)
    _add(mean, "a", 0, [1, 2, 3, 4, 5, 6], 0)
    with pytest.raises(Rejected, match="no site") as caught:
        mean.result()
    assert caught.value.reason is Reason.SCHEMA


def test_misuse_is_refused() -> None:
    mean = ExtractorMean(TENSORS)
    with pytest.raises(ValueError, match="begun"):
        mean.add("w", 0, np.zeros(1, dtype=np.float32))
    with pytest.raises(ValueError, match="begun"):
        mean.end()
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="weight"):
            mean.begin(weight, site="a")
    mean.begin(1, site="a")
    with pytest.raises(ValueError, match="ended"):
        mean.begin(1, site="b")
    with pytest.raises(ValueError, match="ended"):
        mean.result()
    with pytest.raises(ValueError, match="layout"):
        mean.add("v", 0, np.zeros(1, dtype=np.float32))
    with pytest.raises(ValueError, match="out of place"):
        mean.add("w", 1, np.zeros(1, dtype=np.float32))
    mean.add("w", 0, np.zeros(4, dtype=np.float32))
    with pytest.raises(ValueError, match="out of place"):
        mean.add("w", 0, np.zeros(4, dtype=np.float32))
    with pytest.raises(ValueError, match="out of place"):
        mean.add("w", 4, np.zeros(3, dtype=np.float32))
