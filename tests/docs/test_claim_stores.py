"""The page on claim stores: its examples run in order against real servers, and print what it says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.support.postgres import postgres
from tests.support.redis import redis_server

PAGE = ROOT / "docs" / "how-to" / "claim-stores.md"


def test_the_examples_run_and_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    """A block of text is the output of the Python above it; Python without one prints nothing."""
    names: dict[str, Any] = {"__name__": "page"}
    page = blocks(PAGE)
    assert {block.language for block in page} == {"python", "text"}

    with postgres() as postgres_url, redis_server() as redis_url:
        for block, following in zip(page, [*page[1:], None], strict=True):
            if block.language == "python":
                text = block.text.replace("postgresql://localhost/shop", postgres_url)
                text = text.replace("redis://localhost:6379/0", redis_url)
                exec(compile("\n" * block.line + text, str(PAGE), "exec"), names)
                expected = following.text if following is not None and following.language == "text" else ""
                assert capsys.readouterr().out == expected, f"the output of the block at line {block.line}"
