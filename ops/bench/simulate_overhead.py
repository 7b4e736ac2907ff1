"""What a simulated round costs beside its torch steps: a round of FedAvg and of this project's method, and a loop.

`python ops/bench/simulate_overhead.py [--sites 20]` prints JSON and writes ops/bench/results/simulate_overhead.json.
Exits with 1 when a round takes more than 1.10 times the loop.

The same work: 20 sites, FedPAC's CNN of 80,202 parameters, 5 epochs over 600 records in batches of 50. The loop is
what a researcher would write: one model, an optimizer a site, the steps; its loss is that of the round that it is
compared with, and for this project's method it has the forward pass for the class sums too. The round is everything
that `simulate run` does between two scores: state read, sites trained, aggregation, the transaction on disk. Both in
this process, in turns, one thread; CPU time, the best of the repeats.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch.nn import functional

from secureproto.learning.dataset import Records
from secureproto.learning.model import build
from secureproto.simulation.baselines.catalogue import make
from secureproto.simulation.data.catalogue import example_study
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.experiment import with_rounds
from secureproto.simulation.history import RoundRecord
from secureproto.simulation.population import GivenSites, SiteData
from secureproto.simulation.run import Run, RunOptions
from secureproto.simulation.store import RunStore
from secureproto.study.file import load
from secureproto.study.schema import StudyFile

ALLOWED = 1.10
RECORDS = 600


def sites_of(count: int) -> dict[str, SiteData]:
    """Sites of random images: what they show does not change what a step costs."""
    numbers = np.random.default_rng(0)

    def records(rows: int) -> Records:
        x = numbers.uniform(-1, 1, (rows, 1, 28, 28)).astype(np.float32)
        return Records(x, numbers.integers(0, 10, rows))

    return {f"site-{i:02d}": SiteData(records(RECORDS), records(10)) for i in range(count)}


def plain(study: StudyFile, sites: dict[str, SiteData], *, alignment: bool) -> None:
    """The loop."""
    training = study.training
    model = build(study)
    first = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    target = torch.zeros(10, study.model.embedding_width)
    for data in sites.values():
        model.load_state_dict(first)
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=training.learning_rate, momentum=training.momentum)
        for _ in range(training.local_epochs or 0):
            order = torch.randperm(len(data.train))
            for start in range(0, len(order), training.batch_size):
                rows = order[start : start + training.batch_size].numpy()
                x, y = torch.from_numpy(data.train.x[rows]), torch.from_numpy(data.train.y[rows])
                logits, embeddings = model(x)
                loss = functional.cross_entropy(logits, y)
                if alignment:
                    loss = loss + (embeddings - target[y]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        if alignment:
            with torch.no_grad():
                for start in range(0, len(data.train), 256):
                    model(torch.from_numpy(data.train.x[start : start + 256]))


def seconds(work: Callable[[], None]) -> float:
    """CPU time of a piece of work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def rounds(label: str, study: StudyFile, sites: dict[str, SiteData], repeats: int) -> tuple[float, float]:
    """(loop, round): the best of the repeats, in turns."""
    loops: list[float] = []
    found: list[float] = []
    mark = time.process_time()

    def after_a_round(record: RoundRecord) -> None:
        nonlocal mark
        if 0 < record.number < repeats:  # the first round scores the first weights, the last one the models
            found.append(time.process_time() - mark)
        loops.append(seconds(lambda: plain(study, sites, alignment=label == "protoaligned")))
        mark = time.process_time()

    with TemporaryDirectory() as directory:
        store = RunStore(Path(directory) / "run.sqlite")
        method = make(label, with_rounds(study, repeats))
        options = RunOptions(evaluate_every=repeats + 1, choice=False)
        Run(method, GivenSites(sites), InProcess(), store, options).go(after_a_round)
        store.close()
    return min(loops), min(found)


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sites", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    study = load(example_study("fashion-mnist"))
    sites = sites_of(arguments.sites)
    parameters = sum(tensor.numel() for tensor in build(study).state_dict().values())
    found: dict[str, dict[str, float]] = {}
    for label in ("fedavg", "protoaligned"):
        loop, taken = rounds(label, study, sites, arguments.repeats)
        found[label] = {
            "loop_seconds": round(loop, 3),
            "round_seconds": round(taken, 3),
            "ratio": round(taken / loop, 3),
        }
    result = {
        "sites": arguments.sites,
        "parameters": parameters,
        "steps_a_site": 60,
        "methods": found,
        "allowed": ALLOWED,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    print(json.dumps(result, indent=1))
    (Path(__file__).parent / "results" / "simulate_overhead.json").write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(any(one["ratio"] > ALLOWED for one in found.values()))


if __name__ == "__main__":
    main()
