"""After a study's last version: train on it with the site's own records, and choose what the site uses.

    1. Local training: the result is kept as `<version>-local`. Off with `[training] fine_tune = 0`.
    2. The choice (`secureproto.learning.choice`) among the version as received, 1., and others made of them; the one
       that was chosen is kept, as `<version>-own` for one. Off with `[training] validation = 0`: 1. is used then.

Every model made here is this site's alone: it is never sent, and it may tell of the records it was trained on. So may
which one was chosen: neither a message nor a log above debug level says it. A model that a person holds stays in use,
and everything stays beside it.
"""

import logging

from secureproto.clock import seconds
from secureproto.data.folds import Folding
from secureproto_client import choices, scores
from secureproto_client.holdout_key import read_or_make_key
from secureproto_client.learner import Chosen, Learner
from secureproto_client.models import Arrays, ModelLabel, Origin, StoredModel, model_name
from secureproto_client.pointer import Pointer
from secureproto_client.site import Site
from secureproto_client.studies import Study

log = logging.getLogger(__name__)


def finish(site: Site, study: Study, learner: Learner, version: int) -> None:
    """Steps 1 and 2, each where it is not turned off and not done yet.

    Raises:
        Misconfigured, PolicyDenied: what the learner raises.
    """
    said = site.settings.training
    store = site.models(study.name)
    base = store.load(model_name(version, "received"), study.descriptor.model)
    local = model_name(version, "local")
    if said.fine_tune != 0 and not store.has(local):
        trained = learner.fine_tune(base, said.fine_tune)
        _keep(site, study, base, origin="local", weights=(trained.shared, trained.head))
        scores.note(site.paths.scores, study.name, local, learner.score(trained.shared, trained.head))
        log.info("study %s: trained on version %d locally", study.name, version)
    if said.validation > 0:
        _choose(site, study, learner, base)
    elif store.has(local):
        Pointer(store).offer(local)
        log.info("study %s: model %s is in use here only", study.name, local)


def _choose(site: Site, study: Study, learner: Learner, base: StoredModel) -> None:
    said, version = site.settings.training, base.note.version
    if choices.made(site.paths.choices, study.name, version) is not None:
        return
    folding = Folding(said.validation, read_or_make_key(site.paths.hold_out_key))
    chosen = learner.choose(base, said.fine_tune, said.longer, folding)
    name = model_name(version, chosen.origin)
    if not site.models(study.name).has(name):
        _keep(site, study, base, origin=chosen.origin, weights=(chosen.shared, chosen.head))
        scores.note(site.paths.scores, study.name, name, learner.score(chosen.shared, chosen.head))
    Pointer(site.models(study.name)).offer(name)
    choices.note(site.paths.choices, study.name, name, version=version, chosen=chosen)
    log.info("study %s: the model to use of version %d is chosen: `client status` shows it", study.name, version)
    _tell(study.name, name, chosen)


def _keep(site: Site, study: Study, base: StoredModel, *, origin: Origin, weights: tuple[Arrays, Arrays]) -> None:
    pin = study.pin
    label = ModelLabel(pin.study_digest, pin.schema_digest, base.note.version, origin, seconds(site.clock))
    site.models(study.name).add(label, study.descriptor.model, shared=weights[0], head=weights[1])


def _tell(study: str, name: str, chosen: Chosen) -> None:
    losses = ", ".join(f"{kind} {loss:.4f}" for kind, loss in chosen.losses.items()) or "none"
    log.debug("study %s: chose %s by %d records; log loss: %s", study, name, chosen.judged, losses)
