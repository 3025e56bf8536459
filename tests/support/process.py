"""What the system says about a process: for tests of memory, sockets and what is left behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

MEBIBYTE = 1 << 20


def resident_bytes(pid: int) -> int:
    """Resident memory now."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], check=True, capture_output=True, text=True)
    return int(shown.stdout) * 1024


def group_members(group: int) -> list[int]:
    """The processes of a process group that are alive, zombies left out."""
    listed = []
    if Path("/proc/self/stat").exists():
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _parent, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue  # It ended while we looked.
            if int(its_group) == group and state != "Z":
                listed.append(int(stat.parent.name))
        return listed
    shown = subprocess.run(["ps", "-axo", "pid=,pgid=,state="], check=True, capture_output=True, text=True)
    for line in shown.stdout.splitlines():
        pid, its_group_text, state = line.split()
        if int(its_group_text) == group and not state.startswith("Z"):
            listed.append(int(pid))
    return listed
