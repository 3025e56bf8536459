"""The fenced blocks of a Markdown page, and a reader for the little HCL that our pages hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    heading: str
    """The nearest heading above it."""
    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    found, heading, language, lines, start = [], "", None, list[str](), 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if language is None and (title := re.match(r"#+ (.+)", line)):
            heading = title[1]
        elif (fence := re.match(r"```(\w*)$", line)) is not None:
            if language is None:
                language, lines, start = fence[1], [], number
            else:
                found.append(Block(heading, language, "\n".join([*lines, ""]), start))
                language = None
        elif language is not None:
            lines.append(line)
    assert language is None, f"{page}:{start}: the block does not end"
    return found


_HCL_TOKEN = re.compile(
    r"""\s*(?: (?P<word>[A-Za-z_][A-Za-z0-9_]*) | (?P<text>"(?:[^"\\$%]|\\["\\nt])*") | (?P<number>-?\d+(?:\.\d+)?)
             | (?P<mark>[{}=]) )(?P<space>[ \t]*)(?P<end>\n?)""",
    re.VERBOSE,
)


def read_hcl(text: str) -> dict[str, Any]:
    """Blocks and attributes with literal values, as nested dictionaries; anything else is an AssertionError.

    A block is keyed by its type and labels (`resource google_cloud_tasks_queue errands`).
    """
    tokens = []
    position = 0
    text = text.rstrip() + "\n"
    while position < len(text):
        found = _HCL_TOKEN.match(text, position)
        assert found is not None, f"not HCL that we know: {text[position : position + 40]!r}"
        tokens.append(found)
        position = found.end()
    body, rest = _hcl_body(tokens)
    assert rest == [], f"one brace too many: {rest[0][0]!r}"
    return body


def _hcl_body(tokens: list[re.Match[str]]) -> tuple[dict[str, Any], list[re.Match[str]]]:
    body: dict[str, Any] = {}
    while tokens and tokens[0]["mark"] != "}":
        name, *tokens = tokens
        assert name["word"], f"expected a name: {name[0]!r}"
        key = name["word"]
        if tokens[0]["mark"] == "=":
            value, *tokens = tokens[1:]
            assert value["end"], f"expected the end of the line after {key}"
            assert not value["mark"], f"expected a value of {key}"
            body[key] = _hcl_value(value)
            continue
        while tokens[0]["text"]:
            key += " " + tokens[0]["text"][1:-1]
            tokens = tokens[1:]
        opening, *tokens = tokens
        assert opening["mark"] == "{", f"expected a brace after {key}"
        assert opening["end"], f"expected the end of the line after the brace of {key}"
        assert key not in body, f"{key} comes twice"
        body[key], tokens = _hcl_body(tokens)
        assert tokens, f"{key} does not end"
        assert tokens[0]["mark"] == "}", f"{key} does not end"
        tokens = tokens[1:]
    return body, tokens


def _hcl_value(token: re.Match[str]) -> str | float | bool:
    if token["text"]:
        return token["text"][1:-1]
    if token["number"]:
        return float(token["number"])
    assert token["word"] in {"true", "false"}, f"a value that is no literal: {token['word']}"
    return bool(token["word"] == "true")
