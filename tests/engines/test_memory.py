from __future__ import annotations

import pytest

from taskbell.engines.memory import MemoryEngine
from taskbell.testing.engine_samples import MakeEngine
from taskbell.testing.engine_suite import EngineSuite


class TestMemoryEngine(EngineSuite):
    @pytest.fixture
    def make_engine(self) -> MakeEngine:
        return MemoryEngine
