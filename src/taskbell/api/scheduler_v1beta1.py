"""google.cloud.scheduler.v1beta1: v1 with a flag for App Engine's legacy cron, which is not built here.

The two versions agree on every field's number, so a v1beta1 message is read and written as v1 through its bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from google.cloud import scheduler_v1

from taskbell.core.errors import Unimplemented
from taskbell.service.services import Services

Handler = Callable[[Services, Any, Any], Awaitable[Any]]
_LEGACY = "legacy_app_engine_cron"


def adapted(handler: Handler) -> Handler:
    """A v1 handler that takes and gives v1beta1 messages."""

    async def call(services: Services, request: Any, response: Any) -> Any:
        refuse_legacy(request)
        as_v1: Any = getattr(scheduler_v1, request.DESCRIPTOR.name).pb()()
        as_v1.ParseFromString(request.SerializeToString())
        answer = await handler(services, as_v1, _v1_response(response))
        response.ParseFromString(answer.SerializeToString())
        return response

    return call


def refuse_legacy(request: Any) -> None:
    """Refuse requests about the jobs of App Engine's cron.yaml. Raises Unimplemented."""
    fields = request.DESCRIPTOR.fields_by_name
    job = request.job if "job" in fields else None
    if (_LEGACY in fields and getattr(request, _LEGACY)) or (job is not None and getattr(job, _LEGACY)):
        raise Unimplemented(
            "legacyAppEngineCron is not built: jobs of App Engine's cron.yaml do not exist here, "
            "create jobs with an App Engine target instead."
        )
    if "filter" in fields and request.filter:
        raise Unimplemented("The filter of ListJobs is not built: leave it empty.")


def _v1_response(response: Any) -> Any:
    name = response.DESCRIPTOR.name
    return getattr(scheduler_v1, name).pb()() if hasattr(scheduler_v1, name) else response
