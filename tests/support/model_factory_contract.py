"""The contract of a model factory, as a test class that any package can run on its own.

class TestMine(ModelFactoryContract):
    def spec(self) -> ModelSpec:
        return ModelSpec((1, 28, 28), classes=10, embedding_width=64)

    def factory(self) -> Factory:
        return mine.factory
"""

import numpy as np
import pytest
import torch

from secureproto.learning.architectures import Factory, ModelSpec
from secureproto.learning.arrays import load_arrays, to_arrays
from secureproto.learning.inspection import batch_norm_layers, check_outputs, check_tensors
from secureproto.learning.losses import cross_entropy_loss
from secureproto.learning.model import Model
from secureproto.learning.seeding import reproducible


class ModelFactoryContract:
    """What the federation relies on. Override `spec` and `factory`."""

    def spec(self) -> ModelSpec:
        """A study the factory can serve."""
        raise pytest.UsageError("override spec")

    def factory(self) -> Factory:
        """The factory under test."""
        raise pytest.UsageError("override factory")

    def build(self, seed: int = 0) -> Model:
        with reproducible(seed):
            extractor, head = self.factory()(self.spec())
        return Model(extractor, head, spec=self.spec())

    def records(self, n: int) -> torch.Tensor:
        return torch.randn(n, *self.spec().input_shape, generator=torch.Generator().manual_seed(1))

    def test_outputs_and_tensors_fit(self) -> None:
        model = self.build()
        check_tensors(model)
        check_outputs(model, self.spec())

    def test_no_batch_norm(self) -> None:
        assert batch_norm_layers(self.build()) == ()

    def test_the_seed_fixes_the_first_weights(self) -> None:
        first, again, other = (to_arrays(self.build(seed)) for seed in (0, 0, 1))
        assert all(np.array_equal(first[name], again[name]) for name in first)
        assert any(not np.array_equal(first[name], other[name]) for name in first)

    def test_arrays_carry_the_whole_model(self) -> None:
        source, target = self.build(0), self.build(1)
        load_arrays(target.extractor, to_arrays(source.extractor))
        load_arrays(target.head, to_arrays(source.head))
        x = self.records(3)
        with torch.no_grad():
            expected, found = source.eval()(x), target.eval()(x)
        assert torch.equal(expected[0], found[0])
        assert torch.equal(expected[1], found[1])

    def test_each_record_is_on_its_own(self) -> None:
        model, x = self.build().eval(), self.records(4)
        with torch.no_grad():
            together, alone = model(x)[0], torch.cat([model(row[None])[0] for row in x])
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)

    def test_every_parameter_learns_from_a_single_record(self) -> None:
        model = self.build().train()
        loss = cross_entropy_loss(self.spec().classes, self.spec().embedding_width)
        with reproducible(0):
            value: torch.Tensor = loss(model(self.records(1)), torch.tensor([0]))
            value.backward()  # type: ignore[no-untyped-call]  # torch's
        missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
        assert missing == []
