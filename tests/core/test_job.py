"""Jobs and executions as values, and their names and refusals (wire.md sections 2 and 7)."""

from __future__ import annotations

import pytest

from taskbell.core.errors import InvalidArgument, job_exists
from taskbell.core.job import STARTED, Disposition, Execution, Progress
from taskbell.core.names import JOB_FORM, JobName, check_job_name, check_job_under, split_job_name

PARENT = "projects/p/locations/l"
JOB = f"{PARENT}/jobs/j"


@pytest.mark.parametrize("project", ["p", "my-project-1", "example.com:p", "1234567"])
def test_a_name_has_three_parts(project: str) -> None:
    """Project, location and id."""
    name = f"projects/{project}/locations/us-central1/jobs/A_b-9"

    assert split_job_name(name) == JobName(project, "us-central1", "A_b-9")
    check_job_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "j", f"/{JOB}", f"{JOB}/", f"{JOB}\n", f"{PARENT}/jobs/", f"{PARENT}/jobs/a b", f"{PARENT}/jobs/{'x' * 501}",
     f"{PARENT}/queues/j", "projects//locations/l/jobs/j", "projects/p/locations/L/jobs/j"],
)  # fmt: skip
def test_other_forms_are_refused(name: str) -> None:
    """In Google's words."""
    with pytest.raises(InvalidArgument) as refusal:
        check_job_name(name)
    assert refusal.value.message == JOB_FORM


def test_a_job_lies_under_its_parent() -> None:
    """Under exactly that location."""
    check_job_under(JOB, PARENT)
    with pytest.raises(InvalidArgument, match="must begin with"):
        check_job_under(JOB, PARENT + "2")
    with pytest.raises(InvalidArgument, match="must be formatted"):
        check_job_under("j", PARENT)


def test_a_name_that_is_taken_is_told() -> None:
    """Whole."""
    assert job_exists(JOB) == f"Job {JOB} already exists."


@pytest.mark.parametrize("disposition", Disposition)
@pytest.mark.parametrize("progress", Progress)
def test_what_an_execution_is(disposition: Disposition, progress: Progress) -> None:
    """Forced or not, open or not."""
    execution = Execution(1, JOB, 0, disposition, progress)

    assert execution.is_open == (progress is Progress.OPEN)
    assert execution.is_forced == (disposition is Disposition.FORCED)
    assert not execution.is_forced or disposition in STARTED
