"""`treadle stats TYPE` and `treadle stats --queue NAME`: percentiles of one type or queue."""

from rich.console import Console
from rich.text import Text

from treadle.cli.output import Column, heading, jsonable, print_json, screen, show_table, write
from treadle.db.database import Database
from treadle.operations.known_names import check_name
from treadle.operations.places import Kind, get_activities, get_place
from treadle.words.formatting import age, estimated, printable, rate, share, span
from treadle.words.places import Activity, PlaceDetails

WINDOWS = {3600: "1 h", 21_600: "6 h", 86_400: "24 h", 604_800: "7 d"}
COLUMNS = [Column("LAST"), *(Column(name, right=True) for name in ("COMPLETED", "FAILED", "FAILED ATTEMPTS"))]
TIMES = [Column("LAST"), *(Column(name, right=True) for name in ("P50", "P95", "P99", "MAXIMUM"))]


def show_place(database: Database, kind: Kind, name: str, as_json: bool) -> None:
    details, activities = get_place(database, kind, name), get_activities(database, kind, name)
    check_name(database, kind, name, details, activities)
    if as_json:
        made = jsonable(details.place._asdict())
        del made["activity"]
        print_json(made | {"activities": [_json(each) for each in activities]})
        return
    print_place(screen(), details, activities)


def print_place(console: Console, details: PlaceDetails, activities: list[Activity]) -> None:
    place = details.place
    waiting = estimated(f"{place.waiting.jobs:,}", place.waiting.exact, place.waiting.counted_at)
    notes = [f"{waiting} waiting"]
    if place.due_since is not None:
        notes.append(f"the oldest due for {age((details.at - place.due_since).total_seconds())}")
    notes.append(f"{place.workers} {'worker' if place.workers == 1 else 'workers'}")
    notes += ["paused"] * place.paused + ["partly paused"] * place.partly_paused
    notes += ["no worker for some of its jobs"] * place.unserved
    write(console, Text(printable(place.job_type or f"queue {place.queue}"), style="bold"))
    write(console, ", ".join(notes))
    heading(console, f"finished (in the last hour {rate(activities[0].rate)})")
    show_table(console, COLUMNS, [_counts(each) for each in activities])
    heading(console, "waiting time")
    show_table(console, TIMES, [_times(each, each.waited) for each in activities])
    heading(console, "run time")
    show_table(console, TIMES, [_times(each, each.ran) for each in activities])


def _counts(each: Activity) -> list[str]:
    failed = "" if each.failure_share is None else share(each.failure_share)
    return [WINDOWS[each.window], f"{each.completed:,}", f"{each.failed:,}", failed]


def _times(each: Activity, times: tuple[float | None, ...]) -> list[str]:
    return [WINDOWS[each.window], *("" if value is None else _seconds(value) for value in times[:4])]


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f}ms" if value < 0.9995 else span(value)


def _json(each: Activity) -> dict[str, object]:
    made: dict[str, object] = {**each._asdict(), "failure_share": each.failure_share, "rate": each.rate}
    return made | {"waited": each.waited._asdict(), "ran": each.ran._asdict()}
