"""Everything the wire may call, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from taskbell.clock import Clock
from taskbell.core.limits import Limits
from taskbell.service.access import AccessService
from taskbell.service.jobs import JobService
from taskbell.service.locations import LocationService
from taskbell.service.operations import OperationService
from taskbell.service.queues import QueueService
from taskbell.service.tasks import TaskService


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one server."""

    queues: QueueService
    tasks: TaskService
    jobs: JobService
    access: AccessService
    locations: LocationService
    operations: OperationService
    clock: Clock
    limits: Limits
