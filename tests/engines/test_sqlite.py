from __future__ import annotations

from pathlib import Path

import pytest

from taskbell.engines.sqlite import SqliteEngine
from taskbell.testing.engine_samples import MakeEngine
from taskbell.testing.engine_suite import DurableEngineSuite


class TestSqliteEngine(DurableEngineSuite):
    @pytest.fixture
    def make_engine(self, tmp_path: Path) -> MakeEngine:
        return lambda: SqliteEngine(str(tmp_path / "store.db"))
