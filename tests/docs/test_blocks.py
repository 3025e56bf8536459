"""The readers of pages that the other tests of this folder rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks, read_hcl


def test_blocks_have_heading_language_and_line(tmp_path: Path) -> None:
    """In order; a fence inside of another language's block would be text, and headings in a block are none."""
    page = tmp_path / "page.md"
    page.write_text("# One\n\n```sh\n# not a heading\nls\n```\n\n## Two\n\n```python\n```\n")

    assert blocks(page) == [Block("One", "sh", "# not a heading\nls\n", 3), Block("Two", "python", "", 10)]


def test_a_block_that_does_not_end_is_an_error(tmp_path: Path) -> None:
    """Everything below would be lost."""
    page = tmp_path / "page.md"
    page.write_text("```sh\nls\n")

    with pytest.raises(AssertionError, match="does not end"):
        blocks(page)


def test_hcl_is_read_as_nested_dictionaries() -> None:
    """Blocks by type and labels, literals by their kind."""
    text = 'a "b" "c" {\n  text   = "x \\"y\\""\n  number = 1.5\n  truth  = true\n\n  inner {\n    n = -1\n  }\n}\n'

    assert read_hcl(text) == {"a b c": {"text": 'x \\"y\\"', "number": 1.5, "truth": True, "inner": {"n": -1.0}}}


@pytest.mark.parametrize(
    "text",
    [
        "a {\n",
        "a {\n}\n}\n",
        "a { n = 1 }\n",
        "a {\n  n = 1 m = 2\n}\n",
        "a {\n  n = var\n}\n",
        'a {\n  n = "${x}"\n}\n',
        "a {\n  n =\n}\n",
        "a {\n}\na {\n}\n",
        "a: 1\n",
        '"a" {\n}\n',
    ],
)
def test_other_text_is_refused(text: str) -> None:
    """What Terraform would refuse, or what this reader does not know."""
    with pytest.raises((AssertionError, IndexError)):
        read_hcl(text)
