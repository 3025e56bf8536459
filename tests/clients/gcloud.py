"""`gcloud`, unmodified and without a login, through its endpoint overrides."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.clients.foreign import tool
from tests.clients.scenario import LOCATION
from tests.support.server import ServerProcess


class Gcloud:
    """One group of gcloud's commands ("tasks", "scheduler"), with a configuration folder of its own."""

    def __init__(self, group: str, server: ServerProcess, folder: Path, project: str) -> None:
        """Point it at the server, as a user would: through environment variables."""
        self.parent = f"projects/{project}/locations/{LOCATION}"
        advice = "install the Google Cloud CLI from cloud.google.com/sdk or your system's packages."
        self._command = [tool("gcloud", advice), group]
        self._environment = os.environ | {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDTASKS": f"{server.url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDSCHEDULER": f"{server.url}/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CORE_PROJECT": project,
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CONFIG": str(folder),
            # Nothing here may reach for the world outside.
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        }

    def ask(self, *words: str) -> Any:
        """The JSON that a call of the group prints; it must succeed."""
        done = self._run(*words, "--format=json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def refusal(self, *words: str) -> str:
        """What gcloud says on a call that the server refuses: code and message, without the command's name."""
        done = self._run(*words)
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stderr.split(") ", 1)[1]

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        place = [] if words[0] == "locations" else [f"--location={LOCATION}"]
        return subprocess.run(
            [*self._command, *words, *place],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
