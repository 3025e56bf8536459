"""Every way a call can be refused, drawn as one tree.

TaskbellError
├── InvalidArgument        the request is wrong whatever the state of the service
├── NotFound               no such resource
├── AlreadyExists          the name is taken, now or recently
├── FailedPrecondition     right request, wrong state
├── PermissionDenied       the caller may not
├── Unauthenticated        the caller is unknown
├── ResourceExhausted      a quota or the disk is full
├── Aborted                all parts of a batch were refused
├── Unavailable            cannot be decided now; trying again may help
├── Unimplemented          known to the API, not to this server
└── Internal               a broken invariant of ours

Each carries one sentence that callers see and match on, and may carry help links (google.rpc.Help). They are turned
into gRPC statuses and REST error bodies in one place, `api/errors.py`.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple


class Link(NamedTuple):
    """One link of google.rpc.Help."""

    description: str
    url: str


class TaskbellError(Exception):
    """Root of all refusals; `code` is the canonical name of google.rpc.Code."""

    code: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str, *links: Link) -> None:
        super().__init__(message)
        self.message = message
        self.links = links


class InvalidArgument(TaskbellError):
    """The request is wrong whatever the state of the service."""

    code = "INVALID_ARGUMENT"


class NotFound(TaskbellError):
    """No such resource."""

    code = "NOT_FOUND"


class AlreadyExists(TaskbellError):
    """The name is taken, now or within its tombstone window."""

    code = "ALREADY_EXISTS"


class FailedPrecondition(TaskbellError):
    """The request is right, the state of the resource is not."""

    code = "FAILED_PRECONDITION"


class PermissionDenied(TaskbellError):
    """The caller is known and may not."""

    code = "PERMISSION_DENIED"


class Unauthenticated(TaskbellError):
    """The caller is not known."""

    code = "UNAUTHENTICATED"


class ResourceExhausted(TaskbellError):
    """A limit is reached: a quota, a size, the disk."""

    code = "RESOURCE_EXHAUSTED"


class Aborted(TaskbellError):
    """Every part of a batch was refused."""

    code = "ABORTED"


class Unavailable(TaskbellError):
    """It cannot be decided now; trying again may help."""

    code = "UNAVAILABLE"


class Unimplemented(TaskbellError):
    """Known to the API, not built in this server."""

    code = "UNIMPLEMENTED"


class Internal(TaskbellError):
    """A broken invariant of our own."""

    code = "INTERNAL"


REQUESTED_ENTITY_NOT_FOUND = "Requested entity was not found."
QUEUE_DOES_NOT_EXIST = (
    "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize."
)
QUEUE_EXISTS = "Queue already exists"
QUEUE_EXISTED_TOO_RECENTLY = "The queue cannot be created because a queue with this name existed too recently."
TASK_EXISTS = "Requested entity already exists"
TASK_EXISTED_TOO_RECENTLY = (
    "The task cannot be created because a task with this name existed too recently. "
    "For more information about task de-duplication see "
    "https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues.tasks/create#body.request_body.FIELDS.task."
)
TASK_EXISTED_RECENTLY = (
    "The task no longer exists, though a task with this name existed recently. "
    "The task either successfully completed or was deleted."
)
JOB_NOT_FOUND = "Job not found."


def job_exists(name: str) -> str:
    """What AlreadyExists says of a job."""
    return f"Job {name} already exists."
