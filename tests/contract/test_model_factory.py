"""Every factory, ours and the example of a third party, against the public contract."""

from secureproto.learning.architectures import Factory, ModelSpec, cnn, mlp, resnet18
from support.model_factory_contract import ModelFactoryContract
from support.tiny_model import factory as tiny_factory


class TestMlp(ModelFactoryContract):
    def spec(self) -> ModelSpec:
        return ModelSpec((5,), classes=3, embedding_width=4, hidden=(8,))

    def factory(self) -> Factory:
        return mlp


class TestCnn(ModelFactoryContract):
    def spec(self) -> ModelSpec:
        return ModelSpec((1, 28, 28), classes=10, embedding_width=128)

    def factory(self) -> Factory:
        return cnn


class TestResnet18(ModelFactoryContract):
    def spec(self) -> ModelSpec:
        return ModelSpec((3, 32, 32), classes=4, embedding_width=16)

    def factory(self) -> Factory:
        return resnet18


class TestThirdParty(ModelFactoryContract):
    def spec(self) -> ModelSpec:
        return ModelSpec((2, 4, 4), classes=3, embedding_width=8, options={"inner": 6})

    def factory(self) -> Factory:
        return tiny_factory
