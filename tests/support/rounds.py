"""What a round must give, computed in the test, and a site that takes a round up."""

from collections.abc import Mapping

import numpy as np

from secureproto.aggregation.options import aggregation_options
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.aggregation.round import RoundAccumulator, RoundResult
from secureproto.audit.checkpoint import origin_of
from secureproto.audit.receipt import verify_upload_receipt
from secureproto.crypto.envelope import verify
from secureproto.study import file as study_file
from secureproto.wire import layouts, tensors
from secureproto.wire.messages import UploadReceipt
from support.sim_site import SimSite, ok
from support.sim_study import Arrays, SimStudy


def expected(study: SimStudy, updates: Mapping[str, Arrays]) -> RoundResult:
    """The first round's result from the sites' updates."""
    schema = layouts.upload_schema(study.model)
    options = aggregation_options(study_file.load(study.file()))
    absent = GlobalPrototypes.absent(2, study.width)
    accumulator = RoundAccumulator(schema, options, previous=absent, sites=updates.keys())

    def pieces(site: str) -> list[tensors.Piece]:
        return tensors.TensorReader(schema).feed(b"".join(tensors.encode(schema, updates[site])))

    for site in accumulator.sites:
        accumulator.accept(site, pieces(site))
    return accumulator.result()


def answer(site: SimSite, study: SimStudy, seed: int) -> Arrays:
    """The site takes the open invitation up, and checks its receipt; what it sent."""
    invitation = site.invitation(study.name)
    shared, head = site.fetch(site.release(study.name), study.model)
    arrays = study.update(seed, shared, head)
    sealed = site.sealed_update(invitation, arrays, study.model)
    receipt = verify(ok(site.send(invitation, sealed)).content, UploadReceipt, site.server)
    entry = verify_upload_receipt(receipt, origin_of(invitation.federation), keys=site.server)
    assert entry.object_digest == sealed.digest
    return arrays


def assert_published(site: SimSite, study: SimStudy, result: RoundResult) -> None:
    """The newest version is this result, to the last bit."""
    shared, head = site.fetch(site.release(study.name), study.model)
    for key, array in result.shared_arrays().items():
        np.testing.assert_array_equal(shared[key], array)
    for key, array in result.head_arrays(site.name).items():
        np.testing.assert_array_equal(head[key], array)
