"""The kit alone installs without anything heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
PROBE = """
import json, sys
before = set(sys.modules)
import taskbell.idempotency
import taskbell.idempotency.stores.sqlite
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
ours = sorted(name for name in sys.modules if name.startswith("taskbell."))
print(json.dumps([sorted(loaded - set(sys.stdlib_module_names)), ours]))
"""


def test_the_kit_needs_the_standard_library_alone() -> None:
    """Imported without site-packages, it loads core and itself, and nothing else."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(SRC)!r}){PROBE}"],
        check=True,
        capture_output=True,
        text=True,
    )
    foreign, ours = json.loads(done.stdout)

    assert foreign == ["taskbell"]
    assert [name for name in ours if not name.startswith(("taskbell.core", "taskbell.idempotency"))] == []
    assert "taskbell.core.claim" in ours
    assert "taskbell.core.cron" not in ours


def test_everything_that_is_offered_is_there() -> None:
    """And in alphabetical order, so that nothing is offered twice."""
    import taskbell.idempotency as kit  # noqa: PLC0415 - the other test looks at what an import loads.

    assert [name for name in kit.__all__ if not hasattr(kit, name)] == []
    assert len(set(kit.__all__)) == len(kit.__all__)
