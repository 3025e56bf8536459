"""Plays the scenario through google-api-python-client, with the discovery document that it brings along.

This family of clients (gcloud and Terraform belong to it) speaks the other JSON dialect: names of enums, `alt=json`.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable
from typing import Any

from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from tests.clients.scenario import Given

Facts = dict[str, Any]


def play(given: Given, facts: Facts) -> None:
    """Play the scenario, adding to `facts` as it goes."""
    service = build(
        "cloudtasks",
        "v2",
        client_options={"api_endpoint": f"http://{given.host}:{given.port}"},
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
    )
    with service:
        _Scenario(service, given, facts).play()


def _refusal(code: str, message: str) -> Facts:
    return {"code": code, "message": message}


def refused(call: Callable[[], Any]) -> Facts:
    """What a call was refused with; code "OK" when it was not."""
    try:
        call()
    except HttpError as error:
        answer = json.loads(error.content)["error"]
        if answer["code"] != error.resp.status:
            raise
        return _refusal(answer["status"], answer["message"])
    return _refusal("OK", "")


def seconds(duration: str) -> float:
    """A duration of the wire as a number."""
    assert duration.endswith("s"), duration
    return float(duration[:-1])


def _queue_fact(queue: Facts) -> Facts:
    rate, retry = queue["rateLimits"], queue["retryConfig"]
    return {
        "name": queue["name"],
        "state": queue["state"],
        "rate": rate["maxDispatchesPerSecond"],
        "burst": rate["maxBurstSize"],
        "concurrent": rate["maxConcurrentDispatches"],
        "attempts": retry["maxAttempts"],
        "min_backoff": seconds(retry["minBackoff"]),
        "max_backoff": seconds(retry["maxBackoff"]),
        "doublings": retry["maxDoublings"],
    }


def _task_fact(task: Facts) -> Facts:
    request = task["httpRequest"]
    return {
        "name": task["name"],
        "method": request["httpMethod"],
        "url": request["url"],
        "headers": request["headers"],
        "body": request.get("body", ""),
        "view": task["view"],
        "deadline": seconds(task["dispatchDeadline"]),
        "schedule_time": dt.datetime.fromisoformat(task["scheduleTime"]).timestamp(),
        "dispatches": task.get("dispatchCount", 0),
        "responses": task.get("responseCount", 0),
    }


def _policy_fact(policy: Facts) -> Facts:
    return {"bindings": policy.get("bindings", [])}


def _location_fact(place: Facts) -> Facts:
    region = place["labels"]["cloud.googleapis.com/region"]
    return {"name": place["name"], "id": place["locationId"], "region": region}


def _cmek_fact(config: Facts) -> Facts:
    return {"name": config["name"], "kms_key": config.get("kmsKey", "")}


class _Scenario:
    def __init__(self, service: Any, given: Given, facts: Facts) -> None:
        self._locations = service.projects().locations()
        self._queues = self._locations.queues()
        self._tasks = self._queues.tasks()
        self._given = given
        self._facts = facts

    def play(self) -> None:
        self._play_queues()
        self._play_tasks()
        self._play_paused()
        self._play_batches()
        self._play_ending()

    def _new_task(self, task_id: str, schedule_time: str | None = None) -> Facts:
        """A task for the handler path of the same id; without an id the server names it."""
        task: Facts = {
            "httpRequest": {
                "url": f"{self._given.handler}/{task_id}",
                "httpMethod": "POST",
                "headers": {"Content-Type": "application/x-scenario", "X-Mixed-Case": "preserve-me"},
                "body": self._given.body,
            }
        }
        if task_id:
            task["name"] = self._given.task_name(task_id)
        if schedule_time is not None:
            task["scheduleTime"] = schedule_time
        return task

    def _create_task(self, task_id: str, schedule_time: str | None = None) -> Facts:
        body = {"task": self._new_task(task_id, schedule_time)}
        created: Facts = self._tasks.create(parent=self._given.queue_name, body=body).execute()
        return created

    def _get_task(self, task_id: str, view: str | None = None) -> Facts:
        found: Facts = self._tasks.get(name=self._given.task_name(task_id), responseView=view).execute()
        return found

    def _until_gone(self, task_id: str) -> Facts:
        """Read a task until the server refuses, for ten seconds at most; its own answers pace the loop."""
        deadline = time.monotonic() + 10
        while (last := refused(lambda: self._get_task(task_id)))["code"] == "OK":
            if time.monotonic() > deadline:
                break
        return last

    def _list_tasks(self) -> Facts:
        pages: list[int] = []
        names: list[str] = []
        request = self._tasks.list(parent=self._given.queue_name, pageSize=2)
        while request is not None:
            answer = request.execute()
            tasks = answer.get("tasks", [])
            pages.append(len(tasks))
            names.extend(task["name"] for task in tasks)
            request = self._tasks.list_next(request, answer)
        return {"pages": pages, "names": names}

    def _play_queues(self) -> None:
        queues, given, facts = self._queues, self._given, self._facts
        create = {"parent": given.parent, "body": {"name": given.queue_name}}
        facts["create_queue"] = _queue_fact(queues.create(**create).execute())
        facts["create_queue_again"] = refused(queues.create(**create).execute)
        facts["get_queue"] = _queue_fact(queues.get(name=given.queue_name).execute())
        listed = queues.list(parent=given.parent).execute()
        facts["list_queues"] = [queue["name"] for queue in listed.get("queues", [])]
        change = {
            "name": given.queue_name,
            "rateLimits": {"maxDispatchesPerSecond": 100, "maxConcurrentDispatches": 7},
            "retryConfig": {"maxAttempts": 5, "maxBackoff": "1s"},
        }
        mask = "rateLimits.maxDispatchesPerSecond,retryConfig.maxAttempts,retryConfig.maxBackoff"
        updated = queues.patch(name=given.queue_name, body=change, updateMask=mask).execute()
        facts["update_queue"] = _queue_fact(updated)
        facts["missing_queue"] = refused(queues.get(name=f"{given.parent}/queues/nowhere").execute)

    def _play_tasks(self) -> None:
        tasks, given, facts = self._tasks, self._given, self._facts
        future = given.future_time
        facts["create_task"] = _task_fact(self._create_task("named-1", future))
        facts["create_task_again"] = refused(lambda: self._create_task("named-1", future))
        facts["get_task_basic"] = _task_fact(self._get_task("named-1", "BASIC"))
        facts["get_task_full"] = _task_fact(self._get_task("named-1", "FULL"))
        facts["bad_task_id"] = refused(lambda: self._create_task("not a valid id"))
        facts["create_unnamed"] = [self._create_task("", future)["name"] for _ in range(3)]
        facts["list_tasks"] = self._list_tasks()
        facts["missing_task"] = refused(lambda: self._get_task("never"))
        facts["run_task"] = _task_fact(tasks.run(name=given.task_name("named-1"), body={}).execute())
        facts["run_task_finished"] = self._until_gone("named-1")
        facts["finished_name"] = refused(lambda: self._create_task("named-1"))
        facts["deliver_task"] = _task_fact(self._create_task("plain-1"))
        facts["deliver_task_finished"] = self._until_gone("plain-1")
        facts["flaky_task"] = _task_fact(self._create_task("flaky-1"))
        facts["flaky_task_finished"] = self._until_gone("flaky-1")
        self._create_task("doomed-1", future)
        tasks.delete(name=given.task_name("doomed-1")).execute()
        facts["delete_task"] = refused(lambda: self._get_task("doomed-1"))
        facts["delete_missing_task"] = refused(tasks.delete(name=given.task_name("never")).execute)

    def _play_paused(self) -> None:
        queues, given, facts = self._queues, self._given, self._facts
        facts["pause_queue"] = _queue_fact(queues.pause(name=given.queue_name, body={}).execute())
        facts["held_task"] = _task_fact(self._create_task("held-1"))
        self._play_access()
        self._play_places()
        self._play_cmek()
        facts["held_task_waits"] = _task_fact(self._get_task("held-1"))
        facts["resume_called"] = time.time()
        facts["resume_queue"] = _queue_fact(queues.resume(name=given.queue_name, body={}).execute())
        facts["held_task_finished"] = self._until_gone("held-1")

    def _play_access(self) -> None:
        queues, facts, resource = self._queues, self._facts, self._given.queue_name
        facts["get_iam_policy"] = _policy_fact(queues.getIamPolicy(resource=resource, body={}).execute())
        policy = {"bindings": [{"role": "roles/cloudtasks.enqueuer", "members": ["user:ada@example.com"]}]}
        stored = queues.setIamPolicy(resource=resource, body={"policy": policy}).execute()
        facts["set_iam_policy"] = _policy_fact(stored)
        facts["get_iam_policy_again"] = _policy_fact(queues.getIamPolicy(resource=resource, body={}).execute())
        permissions = {"permissions": ["cloudtasks.tasks.create", "cloudtasks.queues.get"]}
        held = queues.testIamPermissions(resource=resource, body=permissions).execute()
        facts["test_iam_permissions"] = held.get("permissions", [])

    def _play_places(self) -> None:
        given, facts = self._given, self._facts
        listed = self._locations.list(name=given.parent.rsplit("/locations/", 1)[0]).execute()
        facts["list_locations"] = [_location_fact(place) for place in listed["locations"]]
        facts["get_location"] = _location_fact(self._locations.get(name=given.parent).execute())

    def _play_cmek(self) -> None:
        locations, given, facts = self._locations, self._given, self._facts
        name = f"{given.parent}/cmekConfig"
        facts["get_cmek_config"] = _cmek_fact(locations.getCmekConfig(name=name).execute())
        change = locations.updateCmekConfig(name=name, body={"kmsKey": given.kms_key}, updateMask="kmsKey")
        facts["update_cmek_config"] = _cmek_fact(change.execute())
        facts["get_cmek_config_again"] = _cmek_fact(locations.getCmekConfig(name=name).execute())

    def _play_batches(self) -> None:
        tasks, given, facts = self._tasks, self._given, self._facts
        requests = [
            {"parent": given.queue_name, "task": self._new_task(task_id, given.future_time)}
            for task_id in ("batch-1", "batch-2")
        ]
        create = tasks.batchCreate(parent=given.queue_name, body={"requests": requests})
        created = create.execute()
        names = [task["name"] for task in created["response"]["tasks"]]
        facts["batch_create"] = {"done": created["done"], "names": names}
        again = tasks.batchCreate(parent=given.queue_name, body={"requests": requests}).execute()
        # An operation's error is a status without the name of its code.
        code = {10: "ABORTED"}.get(again["error"]["code"], str(again["error"]["code"]))
        facts["batch_create_again"] = _refusal(code, again["error"]["message"])
        names = [given.task_name("batch-1"), given.task_name("batch-2")]
        deleted = tasks.batchDelete(parent=given.queue_name, body={"names": names}).execute()
        facts["batch_delete"] = {"done": deleted["done"], "left": self._list_tasks()["names"]}

    def _play_ending(self) -> None:
        queues, given, facts = self._queues, self._given, self._facts
        purged = queues.purge(name=given.queue_name, body={}).execute()
        left = self._list_tasks()
        facts["purge_queue"] = {"state": purged["state"], "purged": "purgeTime" in purged, "left": left}
        assert queues.delete(name=given.queue_name).execute() == {}
        facts["delete_queue"] = refused(queues.get(name=given.queue_name).execute)
        facts["delete_queue_again"] = refused(queues.delete(name=given.queue_name).execute)
        create = queues.create(parent=given.parent, body={"name": given.queue_name})
        facts["recreate_queue"] = refused(create.execute)
