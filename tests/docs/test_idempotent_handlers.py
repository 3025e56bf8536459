"""The page on idempotent handlers: its examples run as they stand, one after the other, and print what it says."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "idempotent-handlers.md"


def test_the_examples_run_and_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A block of text is the output of the Python above it; Python without one prints nothing."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    page = blocks(PAGE)
    assert {block.language for block in page} == {"python", "text"}

    with warnings.catch_warnings():
        # Guards that a later block replaces leave their files to the end of the process, as programs do.
        warnings.simplefilter("ignore", ResourceWarning)
        for block, following in zip(page, [*page[1:], None], strict=True):
            if block.language == "python":
                exec(compile("\n" * block.line + block.text, str(PAGE), "exec"), names)
                expected = following.text if following is not None and following.language == "text" else ""
                assert capsys.readouterr().out == expected, f"the output of the block at line {block.line}"
        names.clear()
        gc.collect()
