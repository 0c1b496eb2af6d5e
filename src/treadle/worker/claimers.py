"""The claimers of a worker together: one for the jobs that run in its process, and one for those in child processes."""

from treadle.worker.claimer import Claimer


class Claimers(list[Claimer]):
    def wake(self, recheck: bool = True) -> None:
        """There may be a job to claim. `recheck`: check again a little later."""
        for claimer in self:
            claimer.wake(recheck)

    def check_soon(self, own: bool) -> None:
        """Another worker was told to look."""
        for claimer in self:
            claimer.check_soon(own)

    def refill(self) -> None:
        """A slot or a child process is free."""
        for claimer in self:
            claimer.refill()

    def release_ready(self) -> None:
        """Give back the jobs that were claimed and not started."""
        for claimer in self:
            claimer.release_ready()

    def set_limit(self, limit: int, children: int) -> None:
        """Run so many jobs at once from now on, and so many in child processes."""
        for claimer in self:
            claimer.set_limit(children if claimer.in_children else limit)

    def stop(self) -> None:
        """Claim no more."""
        for claimer in self:
            claimer.stop()

    @property
    def are_waiting(self) -> bool:
        """Whether all of them wait, and no job was due when they looked."""
        return all(claimer.is_waiting for claimer in self)

    @property
    def claimed_at(self) -> float:
        """When the worker claimed last."""
        return max(claimer.claimed_at for claimer in self)
