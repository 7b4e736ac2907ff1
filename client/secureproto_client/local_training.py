"""After a study's last version: train on it with the site's own records, and keep the result as `<version>-local`.

The local model is this site's alone: it is never sent, and it may tell of the records it was trained on. It is put
to use unless a person holds another one; the version as received stays beside it.
"""

import logging

from secureproto.clock import seconds
from secureproto_client import scores
from secureproto_client.learner import Learner
from secureproto_client.models import ModelLabel, model_name
from secureproto_client.pointer import Pointer
from secureproto_client.site import Site
from secureproto_client.studies import Study

log = logging.getLogger(__name__)


def finish(site: Site, study: Study, learner: Learner, version: int) -> None:
    """Make `<version>-local`, score it, offer it for use. Nothing is done when it is there, or turned off.

    Raises:
        Misconfigured, PolicyDenied: what the learner raises.
    """
    epochs = site.settings.training.fine_tune
    store, name = site.models(study.name), model_name(version, "local")
    if epochs == 0 or store.has(name):
        return
    base = store.load(model_name(version, "received"), study.descriptor.model)
    trained = learner.fine_tune(base, epochs)
    scores.note(site.paths.scores, study.name, name, learner.score(trained.shared, trained.head))
    pin = study.pin
    label = ModelLabel(pin.study_digest, pin.schema_digest, version, "local", seconds(site.clock))
    store.add(label, study.descriptor.model, shared=trained.shared, head=trained.head)
    Pointer(store).offer(name)
    log.info("study %s: trained on version %d locally: model %s is in use here only", study.name, version, name)
