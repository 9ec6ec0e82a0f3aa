"""Numbers, times and sentences as people read them. Pure; the job page's script has the same functions."""

from __future__ import annotations

from datetime import date


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def total(number: int, is_exact: bool) -> str:
    """How many there are in all: `3,000`, or `at least 3,000`."""
    return f"{number:,}" if is_exact else f"at least {number:,}"


def percent(part: int, whole: int) -> str:
    """A share: `12.5 %`; '' of nothing. Neither 0 nor 100 where it is not exactly that."""
    if not whole:
        return ""
    share = round(100 * part / whole, 1)
    return f"{min(max(share, 0.1), 99.9) if 0 < part < whole else share:.1f} %"


def name(text: str) -> str:
    """The name of a table, column or file as a sentence can hold it: as it is where it can be read, else quoted, with
    escapes for what nobody can see: `'a\\nb'`, `'\\ufeffid'`, `' id'`, `''`."""
    return text if text and text.isprintable() and text == text.strip() else repr(text)


def duration(seconds: float | None) -> str:
    """A length of time in at most two units: `45 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`; '' for None."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    named = []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        named.append((count, name))
    first = next(position for position, (count, _) in enumerate(named) if count)
    return " ".join(f"{count} {name}" for count, name in named[first : first + 2] if count)


def rate(rows_per_second: float | None) -> str:
    """Rows a second, or a minute where that is easier to read; '' for None."""
    if rows_per_second is None:
        return ""
    if rows_per_second >= 1 or rows_per_second == 0:
        return f"{rows_per_second:,.0f} rows/s" if rows_per_second >= 10 else f"{rows_per_second:.1f} rows/s"
    return f"{rows_per_second * 60:.1f} rows/min"


def moment(iso: str | None) -> str:
    """An ISO time for reading: `2026-11-30 13:36:00 UTC`."""
    if not iso:
        return ""
    text = iso.replace("T", " ").removesuffix("Z")
    return f"{text.partition('.')[0]} UTC" if iso.endswith("Z") else text


def day(digits: str) -> str:
    """`20190304050607` as `4 March 2019`; '' for what is no day."""
    try:
        found = date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
    except ValueError:
        return ""
    return f"{found.day} {_MONTHS[found.month - 1]} {found.year}"


_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def sentence(words: str) -> str:
    """The words with a full stop, unless they end as a sentence already."""
    stripped = words.rstrip()
    return stripped if not stripped or stripped.endswith((".", "!", "?", "…")) else stripped + "."
