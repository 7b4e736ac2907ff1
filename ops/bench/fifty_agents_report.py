"""What the record of `fifty_agents.py` says: seconds of a round, CPU, transactions. Values in, values out.

The server's record has calls (name, begin, end, CPU of the thread, CPU of the process so far) and transactions
(name, asked, begun, before the commit, end, rows changed); a site's has steps. All times are of one monotonic clock.
"""

import json
import os
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

Call = tuple[str, float, float, float, float]
Transaction = tuple[str, float, float, float, float, int]
Step = tuple[str, str, float, float, float, float]  # step, site, begin, end, CPU, CPU of its process so far


@dataclass(frozen=True)
class Record:
    """What the processes noted."""

    calls: list[Call]
    transactions: list[Transaction]
    sites: list[list[Step]]  # by process

    @classmethod
    def read(cls, place: Path, processes: int) -> "Record":
        server = json.loads((place / "server.json").read_text())
        sites = [json.loads((place / f"sites-{n}.json").read_text())["steps"] for n in range(processes)]
        return cls(server["calls"], server["transactions"], sites)

    def committed(self, *names: str) -> list[float]:
        """When transactions of these names that wrote something were durable."""
        return sorted(t[4] for t in self.transactions if t[0] in names and t[5])


def reckon(record: Record, sites: int) -> dict[str, Any]:
    """The report's figures."""
    opened = record.committed("ask for rounds", "open round")
    published = record.committed("publish version")
    spans = list(zip(opened, published, strict=True))
    rounds = [one_round(record, begin, end) for begin, end in spans]
    steady = rounds[1:] or rounds
    wall = {key: round(median(r["wall"][key] for r in steady), 3) for key in steady[0]["wall"]}
    uploads = {r["uploads"] for r in rounds}
    turns = list(pairwise(opened[1:]))  # whole rounds, from opening to opening
    return {
        "rounds": len(rounds),
        "uploads_per_round": uploads.pop() if len(uploads) == 1 else sorted(uploads),
        "seconds_first_round": round(spans[0][1] - spans[0][0], 3),
        "seconds_per_round": round(median(end - begin for begin, end in spans[1:] or spans), 3),
        "wall": wall,
        "wall_first_round": {key: round(value, 3) for key, value in rounds[0]["wall"].items()},
        "site_step": site_steps(record, turns, sites),
        "cpu_per_round": cpu(record, turns),
        "commits_per_round": commits(record, turns, sites),
    }


def one_round(record: Record, begin: float, end: float) -> dict[str, Any]:
    """One round's seconds in the order in which they pass."""
    steps = [step for process in record.sites for step in process if begin <= step[2] < end]
    woken = sorted(step[2] for step in steps if step[0] == "answer")
    received = [t for t in record.committed("receive upload") if begin < t < end]
    closed = next(t for t in record.committed("close round") if begin < t < end)
    kept = next(t for t in record.committed("keep version") if begin < t < end)
    return {
        "uploads": len(received),
        "wall": {
            "opened_to_first_site_at_work": woken[0] - begin,
            "to_half_of_the_sites_at_work": median(woken) - woken[0],
            "to_last_site_at_work": woken[-1] - median(woken),
            "to_last_upload_received": received[-1] - woken[-1],
            "to_round_closed": closed - received[-1],
            "to_version_aggregated_and_sealed": kept - closed,
            "to_version_published": end - kept,
            "first_upload_received_after": received[0] - begin,
        },
    }


def site_steps(record: Record, turns: list[tuple[float, float]], sites: int) -> dict[str, Any]:
    """Mean wall and CPU seconds of one agent's steps in one round; a poll's wall is mostly waiting."""
    begin, end, number = turns[0][0], turns[-1][1], len(turns) * sites
    walls, spent = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for process in record.sites:
        for word, _, start, stop, used, _ in process:
            if begin <= start < end and word not in ("commit",):
                walls[word].append(stop - start)
                spent[word].append(used)
    return {
        word: {
            "times": round(len(walls[word]) / number, 2),
            "wall_seconds": round(sum(walls[word]) / number, 4),
            "cpu_seconds": round(sum(spent[word]) / number, 4),
        }
        for word in ("poll", "install", "score", "train", "seal", "answer", "deliver", "fsync")
    }


def cpu(record: Record, turns: list[tuple[float, float]]) -> dict[str, Any]:
    """CPU seconds of a round: of all processes, and of the server's parts."""
    begin, end, number = turns[0][0], turns[-1][1], len(turns)
    server = used_within([(call[2], call[4]) for call in record.calls], begin, end)
    sites = sum(used_within([(step[3], step[5]) for step in process], begin, end) for process in record.sites)
    parts: dict[str, float] = defaultdict(float)
    for name, start, _, spent, _ in record.calls:
        if begin <= start < end:
            parts[name] += spent
    # run and complete of `aggregate`, and the gauges, are done in the coordinator's step
    inside = parts["aggregate.run"] + parts["aggregate.complete"] + parts["gauges.refresh"]
    outer = sum(parts.values()) - inside
    shown = {
        **parts,
        "coordinator.step_all, the rest": parts["coordinator.step_all"] - inside,
        "event loop, HTTP, TLS, other threads": server - outer,
    }
    del shown["coordinator.step_all"]
    return {
        "of_the_machine": round((end - begin) / number * (os.cpu_count() or 1), 3),
        "all_sites": round(sites / number, 3),
        "server": round(server / number, 3),
        "server_parts": {key: round(value / number, 3) for key, value in sorted(shown.items(), key=lambda i: -i[1])},
    }


def used_within(points: list[tuple[float, float]], begin: float, end: float) -> float:
    """CPU that a process used between two times, from notes of (time, CPU so far)."""
    inside = sorted(used for at, used in points if begin <= at <= end)
    return inside[-1] - inside[0] if inside else 0.0


def commits(record: Record, turns: list[tuple[float, float]], sites: int) -> dict[str, Any]:
    """Transactions of a round, and how long they wait for their turn, take, and take to commit."""
    begin, end, number = turns[0][0], turns[-1][1], len(turns)
    within = [t for t in record.transactions if begin <= t[1] < end]
    names: dict[str, list[Transaction]] = defaultdict(list)
    for transaction in within:
        names[transaction[0]].append(transaction)
    writes = [t for t in within if t[5]]
    own = sum(step[0] == "commit" and begin <= step[2] < end for process in record.sites for step in process)
    held = {name: sum(t[4] - t[2] for t in found_) / number for name, found_ in names.items()}
    return {
        "server_writing": round(len(writes) / number, 1),
        "server_reading": round((len(within) - len(writes)) / number, 1),
        "one_site": round(own / number / sites, 1),
        "server_mean_commit_ms": round(mean(t[4] - t[3] for t in writes) * 1000, 3),
        "server_mean_wait_ms": round(mean(t[2] - t[1] for t in within) * 1000, 3),
        "server_seconds_held": round(sum(held.values()), 3),
        "by_name": {
            name: {
                "times": round(len(found_) / number, 1),
                "writing": round(sum(t[5] > 0 for t in found_) / number, 1),
                "seconds_held": round(held[name], 3),
                "mean_wait_ms": round(mean(t[2] - t[1] for t in found_) * 1000, 2),
            }
            for name, found_ in sorted(names.items(), key=lambda item: -held[item[0]])
        },
    }
