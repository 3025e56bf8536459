"""The tidy rules: each takes one file and yields complaints that name what to write instead.

Pure functions of a path and a text, so that test_tidy.py can show each of them a bad sample as well as the tree.
Patterns that would match this file are put together from pieces.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Source:
    """A file of the tree: its path from the root, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of a Python file."""
        return ast.parse(self.text, self.path)

    def says(self, line: int, what: str, instead: str) -> str:
        """One complaint about this file."""
        return f"{self.path}:{line}: {what}: {instead}"


@dataclass(frozen=True)
class Rule:
    """What a rule reads, and how it judges it."""

    applies: Callable[[str], bool]
    judge: Callable[[Source], Iterator[str]]

    def complaints(self, source: Source) -> list[str]:
        """Every complaint about `source`, which may be none of this rule's business."""
        return list(self.judge(source)) if self.applies(source.path) else []


def is_src(path: str) -> bool:
    """Whether this is one of our modules."""
    return path.startswith("src/taskbell/") and path.endswith(".py")


def is_core(path: str) -> bool:
    """Whether this is a module of the innermost ring."""
    return path.startswith("src/taskbell/core/") and path.endswith(".py")


def is_ours(path: str) -> bool:
    """Whether this is Python that we wrote, wherever it lies."""
    return path.endswith(".py") and path.startswith(("src/", "tests/", "bench/", "examples/"))


def is_tested(path: str) -> bool:
    """Whether this is a test, or what we ship for other people's tests."""
    return path.endswith(".py") and path.startswith(("tests/", "src/taskbell/testing/"))


# --- Core is pure ---------------------------------------------------------------------------------------------------

# Clock, chance and I/O of the standard library, and what core takes instead. Everything else in it is welcome.
_IMPURE = {
    **dict.fromkeys(("time", "sched"), "take `now: Instant` as an argument"),
    **dict.fromkeys(("random", "secrets", "uuid"), "take the drawn number or id as an argument"),
    **dict.fromkeys(
        ("asyncio", "concurrent", "multiprocessing", "threading", "subprocess", "signal"),
        "return a decision and let service or loops act on it",
    ),
    **dict.fromkeys(
        ("os", "io", "pathlib", "shutil", "tempfile", "socket", "ssl", "http", "sqlite3", "logging", "locale"),
        "take the value as an argument; I/O belongs to the outer rings",
    ),
}


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each imported module with its line; `from a import b` counts as `a`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def core_imports(source: Source) -> Iterator[str]:
    """Core knows itself and the pure part of the standard library; cron.py also knows cronsim."""
    for line, module in _imports(source.tree):
        top = module.split(".")[0]
        if top in _IMPURE:
            yield source.says(line, f"core imports {module}", _IMPURE[top])
        elif module.startswith("."):
            yield source.says(line, "relative import", "write `from taskbell.core import ...`")
        elif top == "cronsim":
            if not source.path.endswith("/core/cron.py"):
                yield source.says(line, "cronsim outside core/cron.py", "call core/cron.py")
        elif top not in sys.stdlib_module_names and top != "taskbell":
            yield source.says(line, f"core imports {module}", "pass a plain value in; third parties stay outside core")


def core_clock(source: Source) -> Iterator[str]:
    """Core is told what time it is."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="now" | "utcnow" | "today" as verb)):
                yield source.says(node.lineno, f"core calls .{verb}()", "take `now: Instant` as an argument")


def core_docstrings(source: Source) -> Iterator[str]:
    """What core offers is explained where it stands."""
    for node in source.tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if not name.startswith("_") and not ast.get_docstring(node):
                    yield source.says(node.lineno, f"{name} has no docstring", "add one sentence: what it means")


# --- Every module ---------------------------------------------------------------------------------------------------


def module_docstring(source: Source) -> Iterator[str]:
    """A module docstring says where you are."""
    if not ast.get_docstring(source.tree):
        yield source.says(1, "no module docstring", "say what this file is for, who calls it and who comes next")


def environment(source: Source) -> Iterator[str]:
    """A setting has one door."""
    words = {"environ", "environb", "getenv", "putenv"}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in words:
            yield source.says(node.lineno, f"reads {node.attr}", "add a field to settings.py and pass it in")
        elif isinstance(node, ast.ImportFrom) and node.module == "os" and words & {alias.name for alias in node.names}:
            yield source.says(node.lineno, "imports the environment", "add a field to settings.py and pass it in")


_VAGUE = {"util", "utils", "common", "helper", "helpers", "manager", "managers", "base", "misc", "data", "info"}


def module_names(source: Source) -> Iterator[str]:
    """A file is named by the one noun it is about."""
    for part in PurePosixPath(source.path).with_suffix("").parts:
        if part.strip("_") in _VAGUE:
            yield source.says(1, f"a module named {part}", "name it by the noun of docs/style.md that it is about")


LINES_MAX = 500

# The ratchet: files that were longer when the rule came, with their length then. Entries shrink and go; none is added.
LONGER: dict[str, int] = {}


def length(source: Source, longer: dict[str, int] = LONGER) -> Iterator[str]:
    """A file has one reason to change."""
    lines = len(source.text.splitlines())
    allowed = longer.get(source.path, LINES_MAX)
    if lines > allowed:
        yield source.says(
            lines, f"{lines} lines, {allowed} at most", "split it where the second reason to change begins"
        )
    elif source.path in longer and lines < allowed:
        yield source.says(lines, f"shrank from {allowed} to {lines} lines", "lower or remove its entry in LONGER")


# --- Words ----------------------------------------------------------------------------------------------------------

# Only words that never mean something else in our code; docs/style.md has the whole table.
_WORDS = {
    **dict.fromkeys(("backend", "connector"), "engine"),
    **dict.fromkeys(("cooldown",), "backoff"),
    **dict.fromkeys(("consumer",), "handler"),
    **dict.fromkeys(("crontab",), "schedule"),
    **dict.fromkeys(("dedupe", "dedup", "ghost"), "tombstone"),
    **dict.fromkeys(("eta",), "schedule_time"),
    **dict.fromkeys(("failover",), "take over"),
    **dict.fromkeys(("leader",), "owner"),
    **dict.fromkeys(("ack", "nack"), "settle"),
    **dict.fromkeys(("quirk",), "divergence"),
    **dict.fromkeys(("redelivery",), "retry"),
    **dict.fromkeys(("tenant",), "project"),
}
_VAGUE_CLASSES = dict.fromkeys(("Base", "Helper", "Manager", "Util", "Utils"), "the noun that it is about")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each name that a module gives to something, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def vocabulary(source: Source) -> Iterator[str]:
    """One thing has one word."""
    for line, name in _defined(source.tree):
        for part in _PART.findall(name):
            instead = _WORDS.get(part.lower()) or _VAGUE_CLASSES.get(part)
            if instead:
                yield source.says(line, f"{name} says {part}", f"say {instead}")
        if name.endswith("_at") and name != "expire_at":  # The one word of the guide's own records.
            yield source.says(line, f"{name} ends in _at", f"write {name.removesuffix('_at')}_time, as on the wire")


_ONCE = re.compile("exactly" + r"[\s-]+once[\s-]+deliver", re.IGNORECASE)


def promise(source: Source) -> Iterator[str]:
    """We never print a promise that no network can keep."""
    yield from _lines(source, _ONCE, "at-least-once delivery; with the kit the work of one key completes once")


# --- Every text file ------------------------------------------------------------------------------------------------


def _lines(source: Source, pattern: re.Pattern[str], instead: str) -> Iterator[str]:
    """A complaint for each line that matches."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := pattern.search(line):
            yield source.says(number, f"says {found.group().strip()!r}", instead)


_FIX = re.compile(r"\bFIX" + r"ME\b|\bX" + r"XX\b")
_LATER = re.compile(r"\bTO" + r"DO\b(?!\(#\d+\))")


def reminders(source: Source) -> Iterator[str]:
    """What is left to do is an issue, and the code says which."""
    yield from _lines(source, _FIX, "mend it now, or open an issue and write TO" + "DO(#number)")
    yield from _lines(source, _LATER, "open an issue and write TO" + "DO(#number)")


_FOLDERS = ("work", "farm", "root", "home", "Users")
_PLACES = re.compile(
    r"(?<![\w.}/-])/(?:" + "|".join(_FOLDERS) + r")/\w|\.\./" + r"shared\b|\.lib" + r"rary/|/tmp/" + r"t[bv]\b"
)


def machine_paths(source: Source) -> Iterator[str]:
    """A clone works wherever it lies."""
    yield from _lines(source, _PLACES, "use a path from the root of the project, or a temporary folder")


_HOSTS = re.compile(
    "|".join(
        (
            "pypi" + r"\.org",
            "python" + "hosted",
            "registry" + r"\.(?:npm|yarn)",
            "(?:proxy|sum)" + r"\.golang",
            "(?:deb|security)" + r"\.debian",
            "(?:archive|security)" + r"\.ubuntu",
            "crates" + r"\.io",
            "rubygems" + r"\.org",
        )
    )
)


def registry_hosts(source: Source) -> Iterator[str]:
    """People choose where their packages come from."""
    yield from _lines(source, _HOSTS, "leave the address out: pins carry a version (and a hash), never a host")


# --- Tests ----------------------------------------------------------------------------------------------------------


def sleeps(source: Source) -> Iterator[str]:
    """A test waits for something, not for a while."""
    instead = "move a ManualClock, or wait on an event or condition with a timeout"
    for node in ast.walk(source.tree):
        match node:
            case ast.ImportFrom(module="time", names=names) if any(alias.name == "sleep" for alias in names):
                yield source.says(node.lineno, "imports sleep", instead)
            case ast.Attribute(attr="sleep", value=ast.Name(id="time")):
                yield source.says(node.lineno, "calls the sleep of time", instead)


def _is_code(path: str) -> bool:
    """Whether reminders in this file would be about the program."""
    return path.endswith(
        (".py", ".sql", ".html", ".css", ".js", ".mjs", ".ts", ".go", ".sh", ".tf", "Makefile", ".ci/run")
    )


RULES: dict[str, Rule] = {
    "core imports": Rule(is_core, core_imports),
    "core clock": Rule(is_core, core_clock),
    "core docstrings": Rule(is_core, core_docstrings),
    "module docstring": Rule(is_src, module_docstring),
    "environment": Rule(lambda path: is_src(path) and path != "src/taskbell/settings.py", environment),
    "module names": Rule(is_ours, module_names),
    "length": Rule(is_ours, length),
    "vocabulary": Rule(is_src, vocabulary),
    "promise": Rule(lambda path: path.startswith("src/"), promise),
    "reminders": Rule(_is_code, reminders),
    "machine paths": Rule(lambda _: True, machine_paths),
    "registry hosts": Rule(lambda _: True, registry_hosts),
    "sleeps": Rule(is_tested, sleeps),
}
