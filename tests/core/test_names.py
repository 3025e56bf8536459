"""Resource names: the grammar, and the exact refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.core import names
from taskbell.core.errors import InvalidArgument

PARENT = "projects/p/locations/us-central1"
QUEUE = f"{PARENT}/queues/q"
ID_TEXT = (
    'Task ID "{}" can contain only letters ([A-Za-z]), numbers ([0-9]), hyphens (-), or underscores (_). '
    "Task ID must between 1 and 500 characters."
)


def refusal(call: Callable[[], object]) -> InvalidArgument:
    """The refusal that a call ends in."""
    with pytest.raises(InvalidArgument) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("project", ["p", "my-project-1", "example.com:app", "A.B-c:1"])
def test_projects_may_be_domain_scoped(project: str) -> None:
    """Letters, digits, colon, dot and hyphen."""
    assert names.parse_project(f"projects/{project}") == project
    assert names.parse_location(f"projects/{project}/locations/l") == (project, "l")


@pytest.mark.parametrize("name", ["", "projects/", "projects/p/", "projects/a_b", "p", "projects/p/locations/l"])
def test_what_is_no_project_is_refused(name: str) -> None:
    """The text for malformed parents."""
    assert refusal(lambda: names.parse_project(name)).message == "Invalid resource field value in the request."


@pytest.mark.parametrize("name", ["", "projects/p", "projects/p/locations/", "projects/p/locations/l/queues/q", "x"])
def test_what_is_no_location_is_refused(name: str) -> None:
    """The text for malformed parents."""
    assert refusal(lambda: names.parse_location(name)).message == "Invalid resource field value in the request."


@pytest.mark.parametrize("location", ["US", "-", "a_b", "us central"])
def test_a_location_of_other_characters_is_named_in_the_refusal(location: str) -> None:
    """The text that points to ListLocations."""
    assert refusal(lambda: names.parse_location(f"projects/p/locations/{location}")).message == (
        f"Location '{location}' is not a valid location. Use ListLocations to list valid locations."
    )


@pytest.mark.parametrize("queue_id", ["q", "Q-1", "a" * 100, "-"])
def test_queue_ids_are_letters_digits_and_hyphens(queue_id: str) -> None:
    """One to a hundred of them."""
    names.check_queue_under(f"{PARENT}/queues/{queue_id}", PARENT)


@pytest.mark.parametrize("queue_id", ["", "a_b", "a" * 101, "a/b", "q\n", "é", "a b"])
def test_a_malformed_queue_name_is_refused_with_help(queue_id: str) -> None:
    """The recorded text, with a link to the definition."""
    error = refusal(lambda: names.check_queue_name(f"{PARENT}/queues/{queue_id}"))

    assert error.message == (
        'Queue name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>".'
    )
    assert [link.description for link in error.links] == ["Definition of queue name"]


@pytest.mark.parametrize("name", ["projects/p/locations/other/queues/q", "projects/x/locations/us-central1/queues/q"])
def test_a_queue_name_outside_its_parent_is_refused(name: str) -> None:
    """Both are in the text."""
    assert refusal(lambda: names.check_queue_under(name, PARENT)).message == f"{name} must begin with {PARENT}."


def test_a_queue_name_has_a_location_and_an_id() -> None:
    """As callers of a valid name want them."""
    assert names.split_queue_name(QUEUE) == (PARENT, "q")


@pytest.mark.parametrize("task_id", ["t", "A-z_0", "a" * 500, "7643216880914112345"])
def test_task_ids_are_letters_digits_hyphens_and_underscores(task_id: str) -> None:
    """One to five hundred of them."""
    assert names.split_task_name(f"{QUEUE}/tasks/{task_id}") == (QUEUE, task_id)
    assert names.chosen_task_id(f"{QUEUE}/tasks/{task_id}", QUEUE) == task_id


@pytest.mark.parametrize("task_id", ["not a valid id", "", "a" * 501, "a/b", "t\n", "ü", "a.b"])
def test_a_bad_task_id_is_refused_with_help(task_id: str) -> None:
    """The recorded text, whose missing word is the service's own."""
    error = refusal(lambda: names.chosen_task_id(f"{QUEUE}/tasks/{task_id}", QUEUE))

    assert error.message == ID_TEXT.format(task_id)
    assert [link.description for link in error.links] == ["Definition of task ID"]
    assert refusal(lambda: names.split_task_name(f"{QUEUE}/tasks/{task_id}")).message == error.message


@pytest.mark.parametrize("name", ["t", QUEUE, "projects/p/tasks/t", f"{QUEUE}_/tasks/t", "/tasks/t"])
def test_what_is_no_task_name_is_refused(name: str) -> None:
    """Without a full stop, as reported."""
    text = (
        'Task name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>/tasks/<TASK_ID>"'
    )
    assert refusal(lambda: names.split_task_name(name)).message == text
    assert refusal(lambda: names.chosen_task_id(name, QUEUE)).message == text


@pytest.mark.parametrize(
    "queue",
    [f"{PARENT}/queues/b", "projects/p/locations/europe-west1/queues/q", "projects/x/locations/us-central1/queues/q"],
)
def test_n09_a_task_name_of_another_queue_project_or_location_is_refused(queue: str) -> None:
    """Both queues are in the text."""
    assert refusal(lambda: names.chosen_task_id(f"{queue}/tasks/t", QUEUE)).message == (
        f"The queue name from request ('{QUEUE}') must be the same as the queue name in the named task ('{queue}')."
    )


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_a_refusal(text: str) -> None:
    """Nothing else comes out of the parsers."""
    for parse in (names.parse_project, names.parse_location, names.check_queue_name, names.split_task_name):
        with contextlib.suppress(InvalidArgument):
            parse(text)
