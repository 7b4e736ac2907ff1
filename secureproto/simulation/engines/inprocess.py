"""The engine in this process: one site after the other, the result of one taken before the next begins."""

from collections.abc import Iterable, Iterator

from secureproto.simulation.engines.seam import Done, Job, Work, Worker


class InProcess:
    """An Engine."""

    def __init__(self) -> None:
        self._worker = Worker()

    def perform(self, work: Work, jobs: Iterable[Job]) -> Iterator[Done]:
        for job in jobs:
            yield self._worker.perform(work, job)

    def close(self) -> None:
        """Nothing is held."""
