"""Load what torch loads at the first training of a process, before a clock runs.

The first optimizer of a process imports a compiler (a second or more): whichever training came first would be told to
have taken it. Nothing is drawn from any generator.
"""

from functools import cache

import torch


@cache
def warm_up() -> None:
    """One step on one number; at the second call nothing."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.0, momentum=0.5)
    (weight * weight).sum().backward()  # type: ignore[no-untyped-call]  # torch's
    optimizer.step()
