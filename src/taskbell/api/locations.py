"""The mix-ins that every API has: google.cloud.location.Locations and google.longrunning.Operations."""

from __future__ import annotations

from typing import Any

from taskbell.core import names
from taskbell.core.paging import cursor_of, page_size, page_token
from taskbell.service.services import Services

_PAGE = 1000


async def list_locations(services: Services, request: Any, response: Any) -> Any:
    """ListLocations: configured ones first, then those in use."""
    project = names.parse_project(request.name)
    now = services.clock.now()
    scope = f"locations\n{request.name}\n{request.filter}"
    cursor = cursor_of(request.page_token, scope, now)
    start, size = cursor[0] if cursor else 0, page_size(request.page_size, _PAGE)
    ids = await services.locations.ids(project)
    for location_id in ids[start : start + size]:
        fill_location(response.locations.add(), f"projects/{project}/locations/{location_id}", location_id)
    if len(ids) > start + size:
        response.next_page_token = page_token([start + size], scope, now + services.limits.page_token_life)
    return response


async def get_location(services: Services, request: Any, response: Any) -> Any:
    """GetLocation: any well-formed location exists, since a location is an opaque part of a name."""
    fill_location(response, request.name, names.parse_location(request.name).location)
    return response


def fill_location(message: Any, name: str, location_id: str) -> None:
    """A location with the one label that gcloud reads to find its default."""
    message.name, message.location_id = name, location_id
    message.labels["cloud.googleapis.com/region"] = location_id


async def list_operations(services: Services, request: Any, response: Any) -> Any:
    """ListOperations: those that are remembered, oldest first."""
    names.parse_location(request.name)
    now = services.clock.now()
    scope = f"operations\n{request.name}\n{request.filter}"
    cursor = cursor_of(request.page_token, scope, now)
    start, size = cursor[0] if cursor else 0, page_size(request.page_size, _PAGE)
    operations = services.operations.under(request.name)
    response.operations.extend(operations[start : start + size])
    if len(operations) > start + size:
        response.next_page_token = page_token([start + size], scope, now + services.limits.page_token_life)
    return response


async def delete_operation(services: Services, request: Any, response: Any) -> Any:
    """DeleteOperation: forget it."""
    services.operations.forget(request.name)
    return response


async def cancel_operation(services: Services, request: Any, response: Any) -> Any:
    """CancelOperation: all operations are done, so there is nothing to cancel."""
    services.operations.get(request.name)
    return response


async def get_operation(services: Services, request: Any, response: Any) -> Any:
    """GetOperation: operations are done when they are answered, and remembered for a while."""
    return services.operations.get(request.name)
