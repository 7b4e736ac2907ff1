"""Which factory makes a study's model, and what it is told: ours by name, another's as `package.module:factory`.

Invariant: code named by a study is imported only if the site's own settings allow exactly that name. The operator
signs the study, but what may run on a site's data is the site's decision.
"""

from collections.abc import Collection
from importlib import import_module
from types import MappingProxyType

from secureproto.errors import Misconfigured, PolicyDenied
from secureproto.learning.architectures import Factory, ModelSpec, cnn, mlp, resnet18
from secureproto.study.features import record_shape
from secureproto.study.schema import StudyFile

BUILT_IN = MappingProxyType({"mlp": mlp, "cnn": cnn, "resnet18": resnet18})


def model_spec(study: StudyFile) -> ModelSpec:
    """What a factory is told of a study."""
    model = study.model
    return ModelSpec(record_shape(study), len(study.classes), model.embedding_width, model.hidden, model.options)


def find_factory(name: str, allowed: Collection[str]) -> Factory:
    """The factory called `name`; one of ours, or one that the site allows.

    Raises:
        PolicyDenied: the site does not allow it.
        Misconfigured: it is not installed here, or is no function.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name not in allowed:
        raise PolicyDenied(
            f"model {name}: this site does not allow it",
            reasons=("model_factory",),
            hint="read its code; then add the name to the allowed factories of this site's settings",
        )
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except ImportError as error:
        raise Misconfigured(f"model {name}: cannot be imported here", hint="install its package") from error
    except AttributeError as error:
        raise Misconfigured(f"model {name}: its module has no such name", hint="install the right version") from error
    if not callable(found):
        raise Misconfigured(f"model {name}: is not a function", hint="name a factory, as package.module:factory")
    factory: Factory = found
    return factory
