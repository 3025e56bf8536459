"""Cloud Scheduler's CMEK calls, which exist over REST in v1 alone: their messages, and their handlers.

Google's Python package carries no messages for them, so they are described here, under their names on the wire. Unlike
that of Cloud Tasks, an UpdateCmekConfig answers an operation, which is done when it is answered.
"""

from __future__ import annotations

from typing import Any

from google.longrunning import operations_pb2
from google.protobuf import descriptor_pool, field_mask_pb2, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from taskbell.core.errors import InvalidArgument
from taskbell.service.services import Services

_PACKAGE = "google.cloud.scheduler.v1"
_MESSAGES = {
    "CmekConfig": {"name": "", "kms_key_name": ""},
    "GetCmekConfigRequest": {"name": ""},
    "UpdateCmekConfigRequest": {
        "cmek_config": f".{_PACKAGE}.CmekConfig",
        "update_mask": f".{field_mask_pb2.FieldMask.DESCRIPTOR.full_name}",
    },
}
"""Fields in the order of their numbers: texts, or messages of a type."""


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(
        name="taskbell/scheduler_cmek.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[field_mask_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), start=1):
            message.field.add(
                name=field,
                number=number,
                label=FieldDescriptorProto.LABEL_OPTIONAL,
                type=FieldDescriptorProto.TYPE_MESSAGE if kind else FieldDescriptorProto.TYPE_STRING,
                type_name=kind or None,
            )
    return file


def _message(name: str) -> Any:
    # The common pool, so that the configuration is found where an operation carries it as Any.
    pools: Any = descriptor_pool
    pool = pools.Default()
    try:
        descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    except KeyError:
        # A newer package of Google's may describe them itself; then theirs is taken.
        pool.AddSerializedFile(_file().SerializeToString())
        descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(descriptor)


CmekConfig = _message("CmekConfig")
GetCmekConfigRequest = _message("GetCmekConfigRequest")
UpdateCmekConfigRequest = _message("UpdateCmekConfigRequest")


async def get_cmek_config(services: Services, request: Any, response: Any) -> Any:
    """GetCmekConfig."""
    response.name = request.name
    response.kms_key_name = await services.locations.kms_key(request.name, "kmsKeyName")
    return response


async def update_cmek_config(services: Services, request: Any, response: Any) -> Any:  # noqa: ARG001 - as all handlers
    """UpdateCmekConfig: only kms_key_name can be set."""
    config = request.cmek_config
    for path in request.update_mask.paths:
        if path not in ("kms_key_name", "name", "*"):
            raise InvalidArgument(f"Invalid mask for CmekConfig: {path}")
    key = await services.locations.set_kms_key(config.name, config.kms_key_name, "kmsKeyName")
    location = config.name.rpartition("/")[0]
    operation = operations_pb2.Operation(name=services.operations.new_name(location), done=True)
    operation.response.Pack(CmekConfig(name=config.name, kms_key_name=key))
    services.operations.keep(operation.name, operation, "", "")
    return operation
