"""Days of files whose times count from midnight."""

import re
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runtime.extras import required
from runtime.replay.bad_rows import BadSource
from runtime.replay.batches import DataSource

NEW_YORK = "America/New_York"
_DAY = re.compile(r"(?<!\d)(?:\d{8}|\d{4}-\d{2}-\d{2})(?!\d)")


def midnight_of(source: DataSource, zone: str) -> int:
    """The start of the file's day in ns since 1970 UTC. Raises BadSource where no day is known."""
    day = _day(source)
    if day is None:
        hint = "--map date=2024-08-08 says it"
        raise BadSource(f"{source.path}: times in this format count from midnight, and the file's name doesn't say of which day", hint)
    start = datetime.combine(day, time(), _zone(zone)).astimezone(UTC)
    return int(start.timestamp()) * 10**9


def _zone(name: str) -> ZoneInfo:
    """Of the system's tables, else of the package for systems that have none. Raises PackageMissing."""
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        required("tzdata")
        raise


def _day(source: DataSource) -> date | None:
    said = source.mapped.get("date")
    if said is not None:
        try:
            return date.fromisoformat(said)
        except ValueError:
            raise BadSource(f"{source.path}: `{said}` is no date", "--map date=2024-08-08") from None
    for digits in _DAY.findall(source.path.name):
        for form in ("%Y%m%d", "%m%d%Y", "%Y-%m-%d"):
            try:
                day = datetime.strptime(digits, form).date()
            except ValueError:
                continue
            if 1970 < day.year < 2262:
                return day
    return None
