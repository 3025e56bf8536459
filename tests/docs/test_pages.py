"""The pages of the project hold together: links lead somewhere, citations exist, generated pages are fresh."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from docs import settings_page
from taskbell.settings import Settings
from tests.docs.blocks import ROOT, blocks

PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", ".github/**/*.md")
    for page in ROOT.glob(pattern)
    if "node_modules" not in page.parts
)
WIRE = ROOT / "docs" / "reference" / "wire.md"
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)


def title(page: Path) -> str:
    """The path from the root, for a test's name."""
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its fenced blocks and code spans, in which brackets mean other things."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """What a link may name within a page: its headings, as GitHub writes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    """Files exist, and headings that links name do too."""
    broken = []
    for link in (first or second for first, second in _LINK.findall(prose(page))):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_fenced_blocks_end_and_say_their_language(page: Path) -> None:
    """A block without a language would be run by nobody and coloured by nothing."""
    assert [each.line for each in blocks(page) if not each.language] == []


def test_the_links_of_a_page_are_seen() -> None:
    """Were the pattern wrong, the test of links would pass with nothing to do."""
    assert "docs/reference/wire.md" in [first or second for first, second in _LINK.findall(prose(ROOT / "README.md"))]


def cited() -> dict[str, list[str]]:
    """Sections of wire.md that code and tests cite, with the files that do."""
    found: dict[str, list[str]] = {}
    for folder in ("src", "tests", "bench"):
        for path in (ROOT / folder).rglob("*.py"):
            text = " ".join(path.read_text(encoding="utf-8").split())
            for words in re.findall(r"wire\.md,? sections? ((?:\d+(?:\.\d+)?(?:, | and | to )?)+)", text):
                for number in re.findall(r"\d+(?:\.\d+)?", words):
                    found.setdefault(number, []).append(str(path.relative_to(ROOT)))
    return found


def test_every_section_that_is_cited_exists() -> None:
    """A citation leads to a heading of that number, or into a section that says that it is not built yet."""
    text = WIRE.read_text(encoding="utf-8")
    headings = set(re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\.? ", text, re.MULTILINE))
    unbuilt = set(re.findall(r"^## (\d+)\. .+\n\nNot built yet\.$", text, re.MULTILINE))
    citations = cited()

    assert len(citations) > 10
    assert {
        number: files
        for number, files in citations.items()
        if number not in headings and number.partition(".")[0] not in unbuilt
    } == {}


def test_every_rule_of_the_wire_has_its_evidence() -> None:
    """Each rule ends in a tag: documented, recorded, reported or our choice; each row of a table has one too."""
    text = re.sub(r"(?s)\A.*?(?=^## 1\.)", "", WIRE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = text.partition("## 14.")[0]
    tag = re.compile(r"\[[DRO](?:[?,:;\]]| )|\| [^|]*\b[DRO]\??[^|]* \|$|Not built|README", re.MULTILINE)
    rules = re.findall(r"^- (?:.+\n)(?:  .+\n)*|^\| (?!---).+\|$", text, re.MULTILINE)
    without = [rule for rule in rules if not tag.search(rule) and not is_heading(rule, text)]

    assert len(rules) > 80
    assert without == []


def is_heading(row: str, text: str) -> bool:
    """Whether a table's row is its first, which names the columns."""
    return row.startswith("|") and re.search(re.escape(row) + r"\n\|---", text) is not None


def constants() -> list[str]:
    """Every text in our modules, as the interpreter sees it; those of f-strings in pieces."""
    return [
        " ".join(node.value.split())
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_every_text_of_the_wire_is_what_the_code_says() -> None:
    """A refusal that the page quotes word for word is in the code, but for what is filled in."""
    spans = (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", WIRE.read_text(encoding="utf-8")))
    texts = [span for span in spans if span.count(" ") >= 2 and re.match(r"[A-Z{]", span)]
    filled_in = re.compile(r"\{[^}]*\}|'[{]?X'|\"X\"|\b\d+h?\b|\[15s, .*?\]|BatchDeleteTasksMetadata|: [a-z].*")
    known = constants()

    missing = [
        (text, piece)
        for text in texts
        for piece in map(str.strip, filled_in.split(text))
        if len(piece) > 8 and not any(piece in constant for constant in known)
    ]

    assert len(texts) > 30
    assert missing == []


def test_the_page_of_settings_is_fresh() -> None:
    """Change settings.py, then run `python docs/settings_page.py`."""
    page = settings_page.PAGE.read_text(encoding="utf-8")

    assert page == settings_page.render()
    assert [item.name for item in fields(Settings) if f"| `{item.name}` |" not in page] == []
