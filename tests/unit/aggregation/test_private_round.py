"""A round under privacy through the accumulator: without noise that of METHOD.md, and nothing uncharged taken in."""

from dataclasses import replace

import numpy as np
import pytest

from secureproto.aggregation.noisy import NoisyOptions
from secureproto.aggregation.options import Options
from secureproto.aggregation.private_round import PrivateRound
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.aggregation.round import RoundAccumulator, RoundResult, aggregate
from secureproto.errors import Rejected
from secureproto.privacy.mechanisms.grid import PrototypeGrid
from secureproto.privacy.mechanisms.prototypes import exact_sums
from secureproto.wire.layouts import PROTOTYPES, upload_schema
from secureproto.wire.reasons import Reason
from support.uploads import Federation, Shape, federation, model, pieces

SHAPE = Shape(sites=5)
OPTIONS = Options(normalisation="softmax", temperature=0.2, min_holders=2)


def grid(noise: float = 1e-9) -> PrototypeGrid:
    """Nearly no noise: what is decoded is exact to a step, and the threshold of signal is met by all."""
    schema = model(SHAPE)
    return PrototypeGrid(schema.classes, schema.embedding_width, 100.0, 10.0, noise)


def on_grid(round_: Federation, used: PrototypeGrid) -> Federation:
    """The same uploads, with class sums in whole steps."""
    uploads = {}
    for site, arrays in round_.uploads.items():
        sums = np.rint(arrays[PROTOTYPES] / used.step)
        sums[:, -1] = arrays[PROTOTYPES][:, -1] * used.count_steps
        uploads[site] = {**arrays, PROTOTYPES: sums}
    return replace(round_, uploads=uploads)


def private(*, releases: bool = True, used: PrototypeGrid | None = None) -> PrivateRound:
    options = replace(OPTIONS, max_peer_share=None)
    return PrivateRound(NoisyOptions(used or grid(), options, moving_average=0.0, shrinkage=0.0), releases)


def run(round_: Federation, options: Options | PrivateRound, previous: GlobalPrototypes | None = None) -> RoundResult:
    schema = upload_schema(model(SHAPE))
    start = previous or GlobalPrototypes.absent(model(SHAPE).classes, model(SHAPE).embedding_width)
    accumulator = RoundAccumulator(schema, options, previous=start, sites=round_.uploads)
    opened = {site: (lambda a=arrays: pieces(schema, a)) for site, arrays in round_.uploads.items()}
    return aggregate(opened, accumulator)


def test_without_noise_prototypes_and_heads_are_the_methods() -> None:
    round_ = federation(3, SHAPE)
    plain, found = run(round_, OPTIONS), run(on_grid(round_, grid()), private())
    np.testing.assert_allclose(found.prototypes.values, plain.prototypes.values, atol=1e-4)
    assert found.prototypes.age.tolist() == plain.prototypes.age.tolist()
    for site in round_.uploads:
        np.testing.assert_allclose(found.heads[site], plain.heads[site], rtol=1e-4, atol=1e-4)
    assert found.marked == ()


def test_every_site_weighs_the_same_in_the_extractor() -> None:
    round_ = federation(3, SHAPE)
    found = run(on_grid(round_, grid()), private())
    name = next(name for name in found.extractor if found.extractor[name].dtype == np.float64)
    mean = np.mean([arrays[name] for arrays in round_.uploads.values()], axis=0, dtype=np.float64)
    np.testing.assert_allclose(np.reshape(found.extractor[name], mean.shape), mean, rtol=1e-6, atol=1e-7)


def test_a_round_without_a_release_keeps_the_prototypes_and_takes_the_mean_of_the_heads() -> None:
    round_ = federation(3, SHAPE)
    silent = {site: {**a, PROTOTYPES: np.zeros_like(a[PROTOTYPES])} for site, a in round_.uploads.items()}
    before = run(round_, OPTIONS).prototypes
    found = run(replace(round_, uploads=silent), private(releases=False), before)
    np.testing.assert_array_equal(found.prototypes.values, before.values)
    assert found.prototypes.age.tolist() == (before.age + before.present).tolist()
    heads = list(found.heads.values())
    sent = [np.concatenate([one["head.weight"], one["head.bias"]]) for one in silent.values()]
    for head in heads:
        np.testing.assert_allclose(head, np.mean(sent, axis=0, dtype=np.float64), rtol=1e-6)
    assert found.relation is None


def test_class_sums_that_nobody_charged_are_refused() -> None:
    with pytest.raises(Rejected) as caught:
        run(on_grid(federation(3, SHAPE), grid()), private(releases=False))
    assert caught.value.reason == Reason.SCHEMA
    assert "in a round that releases none" in caught.value.message


def test_class_sums_beside_the_grid_are_refused() -> None:
    with pytest.raises(Rejected, match="not on the study's grid"):
        run(federation(3, SHAPE), private())


def test_sites_without_signal_are_marked_and_keep_their_heads() -> None:
    loud = grid(noise=1e6)
    found = run(on_grid(federation(3, SHAPE), grid()), private(used=loud))
    assert found.marked == tuple(sorted(found.heads))


def test_the_grid_is_that_of_the_site() -> None:
    used = PrototypeGrid(2, 3, 1.0, 0.5, 1.0)
    z = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]])
    matrix, bad = exact_sums(z, np.array([0, 1]), used)
    assert bad == 0
    options = PrivateRound(NoisyOptions(used, Options()), releases=True)
    found = options.checked(matrix.astype(np.float64), site="a")
    np.testing.assert_allclose(found, [[0.6, 0.0, 0.8, 1.0], [0.0, 1.0, 0.0, 1.0]], atol=1e-6)
