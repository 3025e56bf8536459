"""Core refusals as gRPC statuses and REST error bodies; the one place where they are translated."""

from __future__ import annotations

from typing import Any

from google.protobuf import any_pb2, json_format
from google.rpc import error_details_pb2, status_pb2

from taskbell.core.errors import TaskbellError

GRPC_NUMBER = {
    "OK": 0,
    "CANCELLED": 1,
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "DATA_LOSS": 15,
    "UNAUTHENTICATED": 16,
}
HTTP_STATUS = {
    "OK": 200,
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
    "UNAUTHENTICATED": 401,
}


def rpc_status(error: TaskbellError) -> status_pb2.Status:
    """google.rpc.Status with the help links as a google.rpc.Help detail."""
    status = status_pb2.Status(code=GRPC_NUMBER[error.code], message=error.message)
    if error.links:
        help_ = error_details_pb2.Help()
        for link in error.links:
            help_.links.add(description=link.description, url=link.url)
        detail = any_pb2.Any()
        detail.Pack(help_)
        status.details.append(detail)
    return status


def rest_body(error: TaskbellError) -> dict[str, Any]:
    """Google's REST error body."""
    body: dict[str, Any] = {"code": HTTP_STATUS[error.code], "message": error.message, "status": error.code}
    details = [json_format.MessageToDict(detail) for detail in rpc_status(error).details]
    if details:
        body["details"] = details
    return {"error": body}
