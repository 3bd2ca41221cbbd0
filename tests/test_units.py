"""Quantities are read strictly and written back the way people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos import units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("8s", 8.0), ("2m", 120.0), ("1h", 3600.0), ("1.5s", 1.5), ("5 s", 5.0), ("0s", 0.0),
     ("1e3ms", 1.0), ("30us", 3e-5), ("1d", 86400.0)],
)  # fmt: skip
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "value"), [("90%", 0.9), ("0.9", 0.9), ("70%", 0.7), ("0%", 0.0), ("150%", 1.5), ("7%", 0.07)]
)
def test_a_share_is_the_same_in_percent_and_as_a_number(text: str, value: float) -> None:
    assert units.parse_ratio(text) == value


@pytest.mark.parametrize(("text", "size"), [("64KiB", 65536), ("10MB", 10_000_000), ("1.5KiB", 1536), ("7B", 7)])
def test_a_size_is_whole_bytes(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize(("text", "rate"), [("2/h", 2 / 3600), ("1/m", 1 / 60), ("0.5/s", 0.5)])
def test_a_rate_is_read_per_second(text: str, rate: float) -> None:
    assert units.parse_rate(text) == pytest.approx(rate, rel=1e-15)


@pytest.mark.parametrize("parse", units.PARSERS.values(), ids=units.PARSERS)
@pytest.mark.parametrize("text", ["fast", "", "-1s", "nan", "NaNs", "infs", "-5%", "5 parsecs", "1e999s", "1s2"])
def test_nonsense_is_refused_by_every_parser(parse: Callable[[str], float], text: str) -> None:
    with pytest.raises(units.UnitError):
        parse(text)


def test_a_bare_number_is_no_duration_and_the_units_are_named() -> None:
    with pytest.raises(units.UnitError, match="`8` has no unit") as caught:
        units.parse_duration("8")
    assert "ms, s, m, h" in caught.value.fix


def test_an_unknown_unit_is_named_with_the_known_ones() -> None:
    with pytest.raises(units.UnitError, match="unknown unit `parsecs`") as caught:
        units.parse_duration("5 parsecs")
    assert "ms, s, m, h" in caught.value.fix


def test_half_a_byte_is_refused() -> None:
    with pytest.raises(units.UnitError, match="whole"):
        units.parse_size("0.5B")


@pytest.mark.parametrize("text", ["250ms", "2s", "2m", "90s", "1h", "0s", "1.5s", "30us", "1d"])
def test_a_duration_is_written_as_it_was_read(text: str) -> None:
    assert units.format_duration(units.parse_duration(text)) == text


@pytest.mark.parametrize("text", ["90%", "7%", "0%", "12.5%"])
def test_a_share_is_written_in_percent(text: str) -> None:
    assert units.format_ratio(units.parse_ratio(text)) == text


@pytest.mark.parametrize("text", ["64KiB", "10MB", "1GiB", "7B", "0B"])
def test_a_size_is_written_in_its_largest_unit(text: str) -> None:
    assert units.format_size(units.parse_size(text)) == text


@pytest.mark.parametrize("text", ["2/h", "1/m", "5/s", "3/d"])
def test_a_rate_is_written_as_it_was_read(text: str) -> None:
    assert units.format_rate(units.parse_rate(text)) == text


def test_a_number_goes_with_what_it_counts() -> None:
    assert [units.counted(n, "step") for n in (0, 1, 2, "–")] == ["0 steps", "1 step", "2 steps", "– steps"]
    assert [units.counted(n, "key matches", "keys match") for n in (1, 21)] == ["1 key matches", "21 keys match"]
