"""Taskbell: Cloud Tasks and Cloud Scheduler that you run yourself.

The package is a set of rings, and each ring imports inward only: `core` holds the rules and touches nothing outside
itself; `app` is the one file that knows every concrete class. `CONTRIBUTING.md` says where a new thing goes.
"""

from __future__ import annotations

__version__ = "0.1.0"
