from __future__ import annotations

import json
import math
from typing import Any

import pytest
from google.cloud import tasks_v2
from google.iam.v1 import iam_policy_pb2
from google.longrunning import operations_pb2
from google.protobuf import struct_pb2, wrappers_pb2
from google.protobuf.struct_pb2 import Struct

from taskbell.api.rest_faults import Faults
from taskbell.api.rest_json import fill, json_object, snake
from taskbell.core.errors import InvalidArgument

CreateTaskRequest: Any = tasks_v2.CreateTaskRequest.pb()
Queue: Any = tasks_v2.Queue.pb()
BatchRequest: Any = tasks_v2.BatchCreateTasksRequest.pb()
BatchMetadata: Any = tasks_v2.BatchCreateTasksMetadata.pb()


def parsed(kind: Any, value: Any) -> Any:
    """The message of a JSON value."""
    message, faults = kind(), Faults()
    fill(message, value, "", faults)
    faults.check()
    return message


def http(**fields: Any) -> dict[str, Any]:
    """A create request whose HTTP request has these fields."""
    return {"task": {"httpRequest": fields}}


def invalid(field: str, kind: str, why: str) -> str:
    return f"Invalid value at '{field}' ({kind}), {why}"


URL = ("task.http_request.url", "TYPE_STRING")
HEADERS = "task.http_request.headers"
BYTES = "Invalid value at 'task.http_request.body' (TYPE_BYTES), "
METHOD = "Invalid value at 'task.http_request.http_method' (type.googleapis.com/google.cloud.tasks.v2.HttpMethod), "
TIME = (
    "Invalid value at 'task.schedule_time' (type.googleapis.com/google.protobuf.Timestamp), Field 'scheduleTime', "
    "Illegal timestamp format; timestamps must be RFC 3339 text that ends with 'Z' or has a valid timezone offset."
)
SPAN = (
    "Invalid value at 'task.dispatch_deadline' (type.googleapis.com/google.protobuf.Duration), "
    "Field 'dispatchDeadline', Illegal duration format; durations must be decimal seconds that end with 's'."
)
UNKNOWN = "Invalid JSON payload received. Unknown name "


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("", b""),
        ("aGk=", b"hi"),
        ("aGk", b"hi"),
        ("_-8=", b"\xff\xef"),
        ("_-8", b"\xff\xef"),
        ("/+8=", b"\xff\xef"),
        ("_+8", b"\xff\xef"),
        ("AAAA", b"\0\0\0"),
    ],
)
def test_base64_is_read_in_both_alphabets_padded_or_not(text: str, body: bytes) -> None:
    """proto3 JSON accepts every variant (case H06)."""
    assert parsed(CreateTaskRequest, http(body=text)).task.http_request.body == body


@pytest.mark.parametrize("text", ["***", "*", "{}", "aGk==", "a", "aGkx=", "aG=k", "=", "====", "aG k", "aGk=\n", "ü"])
def test_what_is_not_base64_is_refused_with_its_field(text: str) -> None:
    """Garbage is no body, and is not dropped silently (case H06)."""
    with pytest.raises(InvalidArgument) as refused:
        parsed(CreateTaskRequest, http(body=text))

    assert refused.value.message == BYTES + f"Base64 decoding failed for {json.dumps(text, ensure_ascii=False)}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        # Names, with the place where they stand in proto names.
        ({"x": 1}, UNKNOWN + '"x": Cannot find field.'),
        ({"task": {"x": 1}}, UNKNOWN + "\"x\" at 'task': Cannot find field."),
        (http(x=1), UNKNOWN + "\"x\" at 'task.http_request': Cannot find field."),
        ({"x": 1, "task": {"y": 1}},
         f"{UNKNOWN}\"x\": Cannot find field.\n{UNKNOWN}\"y\" at 'task': Cannot find field."),
        ({"\ud800": 1}, UNKNOWN + '"?": Cannot find field.'),
        ({"x" * 200: 1}, UNKNOWN + f'"{"x" * 100}...": Cannot find field.'),
        (http(httpMethod=1, http_method=1),
         UNKNOWN + "\"http_method\" at 'task.http_request': The field is already set under its other spelling."),
        # Text.
        (http(url=1), invalid(*URL, "1")),
        (http(url=True), invalid(*URL, "true")),
        (http(url={}), invalid(*URL, "Proto field is not repeating, cannot start object.")),
        (http(url=["a"]), invalid(*URL, "Proto field is not repeating, cannot start list.")),
        (http(url="\ud800"), invalid(*URL, "a lone surrogate is not text")),
        (http(headers={"a": 1}), invalid(f"{HEADERS}[0].value", "TYPE_STRING", "1")),
        (http(headers=[]), invalid(HEADERS, "type.googleapis.com/google.cloud.tasks.v2.HttpRequest.HeadersEntry",
                                   "expected an object, not a list")),
        # Bytes and enums.
        (http(body=1), BYTES + "1"),
        (http(httpMethod="FOO"), METHOD + '"FOO"'),
        (http(httpMethod="post"), METHOD + '"post"'),
        (http(httpMethod=1.5), METHOD + "1.5"),
        (http(httpMethod=2**31), METHOD + "2147483648"),
        (http(httpMethod=True), METHOD + "true"),
        # Messages.
        ({"task": "t"}, "Invalid value at 'task' (type.googleapis.com/google.cloud.tasks.v2.Task), \"t\""),
        ({"task": []}, "Invalid value at 'task' (type.googleapis.com/google.cloud.tasks.v2.Task), a list"),
        ({"task": {"httpRequest": {}, "appEngineHttpRequest": {}}},
         invalid("task", "oneof", "oneof field 'message_type' is already set. Cannot set 'appEngineHttpRequest'")),
        # Times.
        ({"task": {"scheduleTime": {"seconds": 1}}}, TIME),
        ({"task": {"scheduleTime": "1671593022"}}, TIME),
        ({"task": {"scheduleTime": 1671593022}}, TIME),
        ({"task": {"dispatchDeadline": "10"}}, SPAN),
        ({"task": {"dispatchDeadline": {"seconds": 10}}}, SPAN),
    ],
)  # fmt: skip
def test_refusals_name_the_field(value: Any, message: str) -> None:
    """What is wrong is said in the words of Google's front end, with the path of the field."""
    with pytest.raises(InvalidArgument) as refused:
        parsed(CreateTaskRequest, value)

    assert refused.value.message == message


def test_many_faults_are_cut_short() -> None:
    """A body full of nonsense gets an answer that somebody may read."""
    with pytest.raises(InvalidArgument) as refused:
        parsed(CreateTaskRequest, {f"x{number}": 1 for number in range(1000)})

    assert len(refused.value.message.splitlines()) == 10


@pytest.mark.parametrize(
    ("value", "attempts"), [(5, 5), ("5", 5), (5.0, 5), (-1, -1), (1e2, 100), (2**31 - 1, 2**31 - 1), (None, 0)]
)
def test_integers_may_be_text_or_whole_numbers(value: Any, attempts: int) -> None:
    """As proto3 JSON allows."""
    assert parsed(Queue, {"retryConfig": {"maxAttempts": value}}).retry_config.max_attempts == attempts


@pytest.mark.parametrize("value", [1.5, "1.5", "", "x", 2**31, -(2**31) - 1, True, "9" * 30, 1e300, math.inf, [], {}])
def test_other_integers_are_refused(value: Any) -> None:
    """A fraction or an overflow is not rounded."""
    with pytest.raises(InvalidArgument, match=r"Invalid value at 'retry_config.max_attempts' \(TYPE_INT32\), "):
        parsed(Queue, {"retryConfig": {"maxAttempts": value}})


@pytest.mark.parametrize(
    ("value", "rate"), [(1, 1.0), (0.001, 0.001), ("0.5", 0.5), ("1e-3", 0.001), ("Infinity", math.inf), (-3, -3.0)]
)
def test_numbers_may_be_text(value: Any, rate: float) -> None:
    """As proto3 JSON allows."""
    queue = parsed(Queue, {"rateLimits": {"maxDispatchesPerSecond": value}})

    assert queue.rate_limits.max_dispatches_per_second == rate


@pytest.mark.parametrize("value", ["x", "", "0x1", "1_0", " 1", "inf", "1e999", True, math.inf, 10**400, [], {}])
def test_other_numbers_are_refused(value: Any) -> None:
    """What is no JSON number is none as text either."""
    with pytest.raises(InvalidArgument, match=r"Invalid value at 'rate_limits.max_dispatches_per_second' "):
        parsed(Queue, {"rateLimits": {"maxDispatchesPerSecond": value}})


def test_both_cases_and_null() -> None:
    """Names in lowerCamelCase and proto names are read alike; null stands for absent; an empty message is present."""
    message = parsed(CreateTaskRequest, {"task": {"http_request": {"httpMethod": None}, "schedule_time": None}})

    assert message.task.HasField("http_request")
    assert not message.task.HasField("schedule_time")


def test_a_map_entry_of_null_is_absent() -> None:
    """`gcloud scheduler jobs update --remove-headers` sends the removed ones so."""
    message = parsed(CreateTaskRequest, http(headers={"a": "b", "c": None}))

    assert dict(message.task.http_request.headers) == {"a": "b"}


def test_enums_by_name_and_number() -> None:
    """Both JSON dialects are read."""
    for form in ("PUT", 4, "4"):
        assert parsed(CreateTaskRequest, http(httpMethod=form)).task.http_request.http_method == 4


def test_truth_is_a_word() -> None:
    """As JSON's own word or as text, and nothing else."""
    for value, done in ((True, True), (False, False), ("true", True), ("false", False)):
        assert parsed(operations_pb2.Operation, {"done": value}).done is done
    for other in ("yes", "True", 1, 0):
        with pytest.raises(InvalidArgument, match=r"Invalid value at 'done' \(TYPE_BOOL\), "):
            parsed(operations_pb2.Operation, {"done": other})


def test_lists_and_maps_hold_messages() -> None:
    """Each element is read by itself, and named by its place."""
    assert parsed(BatchMetadata, {"failedRequests": {"7": {"code": 3}}}).failed_requests[7].code == 3
    for value, message in (
        ({"failedRequests": {"x": {}}}, r"'failed_requests\[0\].key' \(TYPE_INT32\), \"x\""),
        ({"failedRequests": {"7": {"code": "x"}}}, r"'failed_requests\[0\].value.code' \(TYPE_INT32\), \"x\""),
    ):
        with pytest.raises(InvalidArgument, match=message):
            parsed(BatchMetadata, value)
    with pytest.raises(InvalidArgument, match=r"'requests' .*, expected a list, not an object"):
        parsed(BatchRequest, {"requests": {}})


def test_masks_are_one_text_in_either_case() -> None:
    """A FieldMask in a body is comma-separated text, and is normalised to proto names."""
    request = parsed(iam_policy_pb2.SetIamPolicyRequest, {"updateMask": "policy.auditConfigs, etag"})

    assert list(request.update_mask.paths) == ["policy.audit_configs", "etag"]
    with pytest.raises(InvalidArgument, match="Field 'updateMask', a mask is comma-separated text"):
        parsed(iam_policy_pb2.SetIamPolicyRequest, {"updateMask": {"paths": ["etag"]}})


@pytest.mark.parametrize(
    ("camel", "proto"),
    [("rateLimits.maxBurstSize", "rate_limits.max_burst_size"), ("http_target", "http_target"), ("*", "*"), ("", "")],
)
def test_mask_paths_become_proto_names(camel: str, proto: str) -> None:
    """Whichever case a path comes in."""
    assert snake(camel) == proto


def test_types_without_named_fields_are_left_to_protobuf() -> None:
    """Struct and wrappers have forms of their own."""
    assert dict(parsed(Struct, {"a": [1, {"b": None}]})) == {"a": [1, {"b": None}]}
    assert parsed(wrappers_pb2.Int32Value, 5).value == 5
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    for value in (5, deep):
        with pytest.raises(InvalidArgument, match="Struct"):
            parsed(struct_pb2.Struct, value)


@pytest.mark.parametrize(
    "detail",
    [5, "x", [], None, {"x": 1}, {"@type": 5}, {"@type": None}, {"@type": "x/y"},
     {"@type": "type.googleapis.com/google.protobuf.Any", "value": 5}],
)  # fmt: skip
def test_an_any_of_no_known_type_is_refused(detail: Any) -> None:
    """Whatever stands where an Any should be."""
    with pytest.raises(InvalidArgument, match=r"task.last_attempt.response_status.details\[0\]"):
        parsed(CreateTaskRequest, {"task": {"lastAttempt": {"responseStatus": {"details": [detail]}}}})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", 'Unknown name "": Root element must be a message.'),
        (b"null", 'Unknown name "": Root element must be a message.'),
        (b'"x"', 'Unknown name "": Root element must be a message.'),
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)."),
        (b'{"a":1}}', "Extra data: line 1 column 8 (char 7)."),
        (b'{"a":"\xff"}', "It is not valid UTF-8."),
        (b'{"a":1,"a":2}', 'The name "a" appears twice in one object.'),
        (b'{"b":{"a":1,"a":1}}', 'The name "a" appears twice in one object.'),
        (b'{"a":NaN}', "NaN is not a JSON value."),
        (b'{"a":-Infinity}', "-Infinity is not a JSON value."),
        (b'{"a":' * 100_000, "It is nested too deeply."),
        (b"[" * 100_000, "It is nested too deeply."),
        (b'{"a":' + b"9" * 5000 + b"}", "A number has too many digits."),
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(body: bytes, message: str) -> None:
    """Each with one sentence that says what is wrong."""
    with pytest.raises(InvalidArgument) as refused:
        json_object(body)

    assert refused.value.message == "Invalid JSON payload received. " + message


def test_a_byte_order_mark_is_skipped() -> None:
    """Some editors write one."""
    assert json_object(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
