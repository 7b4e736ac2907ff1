"""FedAvg with local fine-tuning: FedAvg's model, trained once more by each site on its own records before it is used.

Source: Yu, Bagdasaryan, Shmatikov, "Salvaging Federated Learning by Local Adaptation", 2020 (arXiv:2002.04758): its
fine-tuning (its code's `freeze_base: false`). All layers are tuned, for the study's epochs at its learning rate; the
published code of FedRep tunes the head alone, for ten epochs.

A short tuning: theirs is a training of its own of the finished model (100 epochs and more, with a learning rate that
is not the rounds'), here it is one more local training, the same for every method that is read at this point. What a
longer one brings is seen in what sites choose (`learning.choice` tries ten local trainings). The rounds are FedAvg's
own, and so are taken from its run: what a FedAvg site has after local training is what this algorithm's site uses.
"""

from dataclasses import dataclass
from typing import ClassVar

from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.history import TUNED, History, SiteRound


@dataclass(frozen=True)
class FedAvgFineTuned(FedAvg):
    """A Method whose runs are FedAvg's, read at another point."""

    title: ClassVar[str] = "FedAvg + fine-tuning"
    runs_as: ClassVar[str] = "fedavg"


def fine_tuned(history: History, label: str) -> History:
    """FedAvg's history, read where its sites have trained. Nothing stands under `received`: that would be the model
    of a training more than the other methods have had at that point."""

    def read(site: SiteRound) -> SiteRound:
        points = {TUNED: site.points[TUNED]} if TUNED in site.points else {}
        return site.model_copy(update={"points": points})

    rounds = tuple(
        record.model_copy(update={"sites": {name: read(site) for name, site in record.sites.items()}})
        for record in history.rounds
    )
    update = {"method": label, "title": FedAvgFineTuned.title, "rounds": rounds}
    return history.model_copy(update=update)
