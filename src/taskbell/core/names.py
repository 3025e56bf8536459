"""Resource names: their grammar and the exact refusals (wire.md sections 2 and 4)."""

from __future__ import annotations

import re
from typing import NamedTuple

from taskbell.core.errors import InvalidArgument, Link

PROJECT = r"[A-Za-z0-9:.\-]+"
LOCATION = r"[a-z0-9][a-z0-9-]*"

_LOCATION = re.compile(rf"projects/({PROJECT})/locations/({LOCATION})\Z")
_ANY_LOCATION = re.compile(rf"projects/{PROJECT}/locations/([^/]+)\Z")
_QUEUE = re.compile(rf"(projects/{PROJECT}/locations/{LOCATION})/queues/([A-Za-z0-9-]{{1,100}})\Z")
_JOB = re.compile(rf"projects/({PROJECT})/locations/({LOCATION})/jobs/([A-Za-z0-9_-]{{1,500}})\Z")
_TASK_ID = re.compile(r"[A-Za-z0-9_-]{1,500}\Z")

QUEUE_NAME_LINK = Link(
    "Definition of queue name",
    "https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues#Queue.FIELDS.name",
)
TASK_ID_LINK = Link(
    "Definition of task ID",
    "https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues.tasks#Task.FIELDS.name",
)

QUEUE_FORM = 'Queue name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>".'
TASK_FORM = (
    'Task name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>/tasks/<TASK_ID>"'
)
INVALID_RESOURCE = "Invalid resource field value in the request."


JOB_FORM = 'Job name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/jobs/<JOB_ID>".'


class LocationName(NamedTuple):
    """A project and a location id."""

    project: str
    location: str


def parse_location(name: str) -> LocationName:
    """`projects/P/locations/L`, or InvalidArgument."""
    match = _LOCATION.match(name)
    if match is None:
        bad = _ANY_LOCATION.match(name)
        if bad is not None:
            raise InvalidArgument(
                f"Location '{bad[1]}' is not a valid location. Use ListLocations to list valid locations."
            )
        raise InvalidArgument(INVALID_RESOURCE)
    return LocationName(match[1], match[2])


def parse_project(name: str) -> str:
    """The project id of `projects/P`, or InvalidArgument."""
    match = re.fullmatch(rf"projects/({PROJECT})", name)
    if match is None:
        raise InvalidArgument(INVALID_RESOURCE)
    return match[1]


def check_queue_name(name: str) -> None:
    """Refuse what is not `projects/P/locations/L/queues/Q`."""
    if _QUEUE.match(name) is None:
        raise InvalidArgument(QUEUE_FORM, QUEUE_NAME_LINK)


def check_queue_under(name: str, parent: str) -> None:
    """Refuse a queue name that is malformed or lies outside its request's parent."""
    parse_location(parent)
    check_queue_name(name)
    if not name.startswith(parent + "/queues/"):
        raise InvalidArgument(f"{name} must begin with {parent}.")


def split_queue_name(name: str) -> tuple[str, str]:
    """A queue's location name and its short id; the name must be valid."""
    location, _, queue_id = name.rpartition("/queues/")
    return location, queue_id


def split_task_name(name: str) -> tuple[str, str]:
    """A task's queue name and task id, or InvalidArgument with the recorded text."""
    queue, separator, task_id = name.rpartition("/tasks/")
    if not separator or _QUEUE.match(queue) is None:
        raise InvalidArgument(TASK_FORM)
    check_task_id(task_id)
    return queue, task_id


def check_task_id(task_id: str) -> None:
    """Refuse a task id outside `[A-Za-z0-9_-]{1,500}`; the missing "be" is the service's own."""
    if _TASK_ID.match(task_id) is None:
        raise InvalidArgument(
            f'Task ID "{task_id}" can contain only letters ([A-Za-z]), numbers ([0-9]), hyphens (-), '
            "or underscores (_). Task ID must between 1 and 500 characters.",
            TASK_ID_LINK,
        )


def chosen_task_id(name: str, parent: str) -> str:
    """The id that a caller chose for a new task of the queue `parent`, after checking the whole name."""
    queue, separator, task_id = name.rpartition("/tasks/")
    if not separator or _QUEUE.match(queue) is None:
        raise InvalidArgument(TASK_FORM)
    if queue != parent:
        raise InvalidArgument(
            f"The queue name from request ('{parent}') must be the same as "
            f"the queue name in the named task ('{queue}')."
        )
    check_task_id(task_id)
    return task_id


class JobName(NamedTuple):
    """The parts of a job's full name."""

    project: str
    location: str
    job_id: str


def split_job_name(name: str) -> JobName:
    """The parts of `projects/P/locations/L/jobs/J`, or InvalidArgument."""
    match = _JOB.match(name)
    if match is None:
        raise InvalidArgument(JOB_FORM)
    return JobName(match[1], match[2], match[3])


def check_job_name(name: str) -> None:
    """Refuse what is not `projects/P/locations/L/jobs/J`."""
    split_job_name(name)


def check_job_under(name: str, parent: str) -> None:
    """Refuse a job name that is malformed or lies outside its request's parent."""
    check_job_name(name)
    if not name.startswith(parent + "/jobs/"):
        raise InvalidArgument(f"{name} must begin with {parent}.")
