"""How good a model is on records it has not seen: accuracy, balanced accuracy, AUC; and the site's loss.

With skewed sites accuracy flatters, so the other two always stand beside it. Computed by scikit-learn.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import recall_score, roc_auc_score

from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.learning.inference import outputs, predict_proba
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model


@dataclass(frozen=True)
class Scores:
    """Scores on `n` records.

    `balanced_accuracy` is the mean recall over the classes that occur. `auc` is that of class 1 for two classes; for
    more it is macro one-vs-rest: the plain mean, over the classes that occur, of each against all other records. None
    where fewer than two classes occur. Those that do not are named in `missing_classes`: scores on other records may
    be means over other classes, so only scores on the same records compare.
    """

    accuracy: float
    balanced_accuracy: float
    auc: float | None
    n: int
    missing_classes: tuple[int, ...] = ()


def score(y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> Scores:
    """Scores of (n, C) probabilities against the (n,) true classes.

    Raises:
        Misconfigured: there are no records.
    """
    if len(y) == 0:
        raise Misconfigured("evaluation: there are no test records", hint="hold out some records, or skip evaluation")
    classes = probabilities.shape[1]
    predicted = probabilities.argmax(axis=1)
    occurring = np.unique(y)
    missing = tuple(int(j) for j in range(classes) if j not in occurring)
    recall = recall_score(y, predicted, labels=occurring, average="macro", zero_division=0)
    auc = _auc(y, probabilities, occurring) if len(occurring) > 1 else None
    return Scores(float((predicted == y).mean()), float(recall), auc, len(y), missing)


def _auc(y: NDArray[np.int64], probabilities: NDArray[np.float64], occurring: NDArray[np.int64]) -> float:
    classes = [1] if probabilities.shape[1] == 2 else occurring.tolist()
    return float(np.mean([roc_auc_score(y == j, probabilities[:, j]) for j in classes]))


def evaluate(model: Model, data: Records) -> Scores:
    """Scores of a model on `data`. Raises as `score` and `predict_proba`."""
    return score(data.y, predict_proba(model, data.x))


def majority_class(y: NDArray[np.int64], classes: int) -> int:
    """The most frequent class of the training labels; the lowest index of equals."""
    return int(np.bincount(y, minlength=classes).argmax())


def mean_loss(model: Model, data: Records, loss: PrototypeLoss) -> float:
    """The site's loss for the stopping rule: CE + μ·A over its records, in evaluation mode.

    Raises:
        Misconfigured: there are no records.
    """
    if len(data.y) == 0:
        raise Misconfigured("training: there are no records", hint="check the data source of this site")
    total = 0.0
    for rows, logits, embeddings in outputs(model, data.x):
        terms = loss.terms((logits, embeddings), torch.tensor(data.y[rows]))
        total += float(loss.total(*terms).double().sum())
    return total / len(data.y)
