"""Class sums and counts of a site: what its class prototypes are made of, and all that is sent of them.

Source: the method's step 4: a pass with the trained extractor, after training, in evaluation mode, without
augmentation (not the moving embeddings of the last epoch). Sums and counts travel, never means: the server
divides once, after adding over sites.
"""

import numpy as np
from numpy.typing import NDArray

from secureproto.learning.dataset import Records
from secureproto.learning.inference import outputs
from secureproto.learning.model import Model


def class_sums(model: Model, data: Records, classes: int) -> NDArray[np.float64]:
    """(C, d+1): the sum of the embeddings of each class, then in the last column its number of records.

    A class the site does not hold has a row of zeros. Added in float64 in the order of the records.
    """
    result = np.zeros((classes, model.embedding_width + 1))
    for rows, _, embeddings in outputs(model, data.x):
        y = data.y[rows]
        np.add.at(result[:, :-1], y, embeddings.double().numpy())
        np.add.at(result[:, -1], y, 1.0)
    return result
