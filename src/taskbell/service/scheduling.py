"""What the service asks of the ticker: a contract, so that service and loops stay blind to each other."""

from __future__ import annotations

from typing import Protocol

from taskbell.core.job import Execution, Job


class Scheduling(Protocol):
    """Called after each commit, in the order of the commits, inside the event loop."""

    def job_changed(self, job: Job) -> None:
        """A job was created, or callers changed it: timers set before are void."""

    def job_deleted(self, job: Job) -> None:
        """A job is gone: no new attempt of it begins from now on."""

    def run(self, job: Job, execution: Execution) -> None:
        """Begin a forced execution that was committed."""

    def current(self, job: Job) -> Job:
        """The job with what an attempt that is out right now adds to it: its time, and the retry that is waited for."""
