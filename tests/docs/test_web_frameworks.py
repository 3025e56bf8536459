"""The page on web frameworks: its examples run as they stand, one after the other, and print what it says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs.blocks import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "web-frameworks.md"


def test_the_examples_run_and_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    """A block of text is the output of the Python above it."""
    names: dict[str, Any] = {"__name__": "page"}
    page = blocks(PAGE)
    assert [block.language for block in page] == ["python", "text"] * 2

    for block, following in zip(page[::2], page[1::2], strict=True):
        exec(compile("\n" * block.line + block.text, str(PAGE), "exec"), names)
        assert capsys.readouterr().out == following.text, f"the output of the block at line {block.line}"
