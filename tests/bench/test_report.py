"""The page that a run writes: what was measured, what was not, and why."""

from __future__ import annotations

from dataclasses import dataclass

from bench.place import Place
from bench.report import FIGURES, Report, number
from bench.stats import Round


@dataclass(frozen=True)
class Part:
    """A part that is only printed."""

    name: str
    settings: tuple[str, ...]

    def prepare(self, place: Place) -> None:
        """Nothing."""

    def measure(self, place: Place) -> Round:
        """Nothing."""
        return {}


def page(*rounds: Round, skipped: dict[str, str] | None = None) -> list[str]:
    """The lines of a page about some rounds."""
    part = Part("post", ("64 workers", "64 workers"))
    return Report({"cores": "2"}, rounds, [part], skipped or {}).text().splitlines()


def test_a_figure_is_its_median_between_its_extremes() -> None:
    """With the number of rounds that measured it, which a failed round makes smaller."""
    lines = page({"floor.post": 20_000.0}, {}, {"floor.post": 10_000.0}, {"floor.post": 12_345.6})

    assert "| (b) bare POSTs (/s) | 12 346 | 10 000 – 20 000 | 3 |" in lines


def test_the_composite_floor_is_taken_inside_each_round() -> None:
    """And only of rounds that measured all its parts."""
    whole: Round = {"floor.noop": 20.0, "floor.post": 30.0, "floor.engine": 60.0}

    assert "| composite floor, 1/(1/a + 1/b + 1/c) (/s) | 10 | 10 – 10 | 1 |" in page(whole, {"floor.noop": 1.0})


def test_a_herds_share_is_taken_inside_each_round() -> None:
    """Its rate over that of bare POSTs, where both were measured."""
    lines = page({"jobs.herd_rate": 5.0, "floor.post": 20.0}, {"jobs.herd_rate": 100.0})

    assert "| herd on one minute: rate over bare POSTs (ratio) | 0.25 | 0.25 – 0.25 | 1 |" in lines


def test_what_was_not_measured_is_said() -> None:
    """A target without figures is not reached, an empty group says so, and what was skipped has its reason."""
    lines = page({}, skipped={"celery": "no redis-server"})

    assert "| end to end over BullMQ | ≥ 1 | – | – | not measured |" in lines
    assert lines.count("Not measured.") == 4
    assert "- celery: skipped: no redis-server" in lines


def test_conditions_and_settings_are_printed_once_each() -> None:
    """Settings that several parts share do not repeat."""
    lines = page({})

    assert "- cores: 2" in lines
    assert lines.count("- post: 64 workers") == 1


def test_every_figure_has_a_key_of_its_own() -> None:
    """Two rows about one key would be one row too many."""
    keys = [figure.key for figure in FIGURES]

    assert len(keys) == len(set(keys))


def test_numbers_are_grouped_by_thousands() -> None:
    """And rounded to what the figure can claim."""
    assert [number(1_234_567.8, 0), number(0.125, 2), number(999.0, 0)] == ["1 234 568", "0.12", "999"]
