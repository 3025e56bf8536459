"""Style as a test: the tree keeps every rule of rules.py, and every rule catches what it is for."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.rules import RULES, Source, length

ROOT = Path(__file__).resolve().parents[2]


@cache
def tree() -> tuple[Source, ...]:
    """Every text file that git has or would take, so that a complaint comes before the commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    sources = []
    for path in sorted(filter(None, listed.stdout.split("\0"))):
        try:
            sources.append(Source(path, (ROOT / path).read_text(encoding="utf-8")))
        except (
            UnicodeDecodeError,
            FileNotFoundError,
            IsADirectoryError,
        ):  # An image; removed, not yet committed; a link.
            continue
    return tuple(sources)


def test_the_tree_is_read() -> None:
    """A rule over no files would always hold."""
    assert {"pyproject.toml", "src/taskbell/__init__.py", "tests/tidy/rules.py"} <= {source.path for source in tree()}


@pytest.mark.parametrize("name", RULES)
def test_the_tree_keeps_the_rule(name: str) -> None:
    """No file of the tree gives cause for complaint."""
    complaints = [line for source in tree() for line in RULES[name].complaints(source)]

    assert not complaints, "\n" + "\n".join(complaints)


CORE = "src/taskbell/core/retry.py"
SRC = "src/taskbell/loops/lane.py"
TEST = "tests/loops/test_lane.py"

# (rule, path, text): the rule complains exactly once.
BAD = [
    ("core imports", CORE, "import time\n"),
    ("core imports", CORE, "from random import random\n"),
    ("core imports", CORE, "import os.path\n"),
    ("core imports", CORE, "from google.protobuf import duration_pb2\n"),
    ("core imports", CORE, "from cronsim import CronSim\n"),
    ("core imports", CORE, "from . import limits\n"),
    ("core clock", CORE, "later = datetime.now(tz=UTC)\n"),
    ("core clock", CORE, "day = date.today()\n"),
    ("core docstrings", CORE, "def decide() -> None:\n    pass\n"),
    ("core docstrings", CORE, "class Decision:\n    pass\n"),
    ("module docstring", SRC, "import asyncio\n"),
    ("module docstring", "src/taskbell/loops/__init__.py", ""),
    ("environment", SRC, "import os\nport = os.environ['PORT']\n"),
    ("environment", SRC, "import os\nport = os.getenv('PORT')\n"),
    ("environment", SRC, "from os import environ\n"),
    ("module names", "src/taskbell/utils.py", ""),
    ("module names", "src/taskbell/common/words.py", ""),
    ("module names", "tests/helpers.py", ""),
    ("length", SRC, "pass\n" * 501),
    ("vocabulary", SRC, "class SqliteBackend:\n    pass\n"),
    ("vocabulary", SRC, "def open(connector): ...\n"),
    ("vocabulary", SRC, "class Task:\n    created_at: int\n"),
    ("vocabulary", SRC, "self.run_at = 1\n"),
    ("vocabulary", SRC, "class BaseEngine:\n    pass\n"),
    ("promise", SRC, '"""We do exactly' + '-once delivery."""\n'),
    ("reminders", SRC, "# FIX" + "ME: wrong\n"),
    ("reminders", TEST, "# TO" + "DO: more\n"),
    ("reminders", "Makefile", "# TO" + "DO more\n"),
    ("machine paths", "README.md", "see /" + "work/main/README.md\n"),
    ("machine paths", "docs/a.md", "see .." + "/shared/a.md\n"),
    ("machine paths", TEST, 'HOME = "/' + 'home/ann/taskbell"\n'),
    ("registry hosts", "constraints.txt", "https://py" + "pi.org/simple\n"),
    ("registry hosts", "tests/clients/node/package-lock.json", '"resolved": "https://registry' + '.npmjs.org/a"\n'),
    ("sleeps", TEST, "import time\ntime." + "sleep(1)\n"),
    ("sleeps", TEST, "from time import sleep\n"),
    ("sleeps", "src/taskbell/testing/clock.py", "import time\nwait = time." + "sleep\n"),
]

# (rule, path, text): close to the bad, and fine.
GOOD = [
    (
        "core imports",
        CORE,
        "from __future__ import annotations\nfrom datetime import date\nfrom taskbell.core import limits\n",
    ),
    ("core imports", "src/taskbell/core/cron.py", "from cronsim import CronSim\n"),
    ("core imports", SRC, "import asyncio\n"),
    ("core clock", CORE, "def due(now: int, task: Task) -> bool:\n    return task.now <= now\n"),
    ("core clock", "src/taskbell/clock.py", "later = datetime.now(tz=UTC)\n"),
    ("core docstrings", CORE, 'def decide() -> None:\n    """Say when."""\n\n\ndef _part() -> None:\n    pass\n'),
    ("module docstring", SRC, '"""One queue\'s pacing."""\n'),
    ("environment", "src/taskbell/settings.py", "import os\nport = os.environ['PORT']\n"),
    ("module names", "src/taskbell/core/queue.py", ""),
    ("module names", "src/taskbell/core/names.py", ""),
    ("length", SRC, "pass\n" * 500),
    (
        "vocabulary",
        SRC,
        "class Lane:\n    schedule_time: int\n    database: str\n    base: int\n    expire_at: int\n    format: str\n",
    ),
    ("vocabulary", SRC, "channel.backend.connect()\n"),  # Other people's words are used, not given.
    ("promise", SRC, '"""At-least-once delivery."""\n'),
    ("reminders", SRC, "# TO" + "DO(#12): more\n"),
    ("machine paths", SRC, 'PATH = "/v2/projects/p/tmpwork/x"\nURL = "http://127.0.0.1/home"\n'),
    ("registry hosts", "constraints.txt", "grpcio==1.0\n"),
    ("sleeps", TEST, "import asyncio\nawait asyncio.sleep(0)\n"),
]


@pytest.mark.parametrize(("name", "path", "text"), BAD)
def test_a_rule_catches_a_bad_sample(name: str, path: str, text: str) -> None:
    """One complaint, with the place, the finding and what to write instead."""
    (complaint,) = RULES[name].complaints(Source(path, text))

    place, finding, instead = complaint.split(": ", 2)
    assert place.startswith(f"{path}:")
    assert finding
    assert instead


@pytest.mark.parametrize(("name", "path", "text"), GOOD)
def test_a_rule_lets_a_good_sample_pass(name: str, path: str, text: str) -> None:
    """A rule that cries wolf is switched off by the first who meets it."""
    assert RULES[name].complaints(Source(path, text)) == []


def test_every_rule_has_samples_of_both_kinds() -> None:
    """A new rule comes with what it catches and what it lets pass."""
    assert {name for name, _, _ in BAD} == set(RULES)
    assert {name for name, _, _ in GOOD} == set(RULES)


@pytest.mark.parametrize(("lines", "complains"), [(600, False), (601, True), (599, True)])
def test_the_length_ratchet_only_turns_down(lines: int, complains: bool) -> None:  # noqa: FBT001 - a table column.
    """A file that was too long may stay as it is, never grow, and gives back what it saved."""
    assert bool(list(length(Source(SRC, "pass\n" * lines), {SRC: 600}))) is complains
