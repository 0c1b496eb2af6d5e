"""normalise_error(): which failures are one group."""

import time
from typing import Any

import pytest
from psycopg import Connection


def normal(connection: Connection[Any], error: str, worker: str | None = None) -> tuple[str, str]:
    row = connection.execute("select exception, message from normalise_error(%s, %s)", [error, worker]).fetchone()
    assert row
    return row[0], row[1]


@pytest.mark.parametrize(
    ("error", "exception", "message"),
    [
        ("ValueError: order 17 is 2.50 short", "ValueError", "order <number> is <number> short"),
        ("shop.errors.OutOfStock: 3 left", "shop.errors.OutOfStock", "<number> left"),
        ("ValueError", "ValueError", ""),
        ("timed out after 30 seconds", "", "timed out after <number> seconds"),
        ("upstream: no answer", "", "upstream: no answer"),
        ("ValueError: user 'ann' is unknown", "ValueError", "user <string> is unknown"),
        ("ValueError: can't open 'a b'", "ValueError", "can't open <string>"),
        ("ValueError: it isn't and can't", "ValueError", "it isn't and can't"),
        # Names of the code tell errors apart.
        ("KeyError: 'total'", "KeyError", "'total'"),
        ("KeyError: 'ORD-1999'", "KeyError", "<string>"),
        (
            "AttributeError: 'NoneType' object has no attribute 'id'",
            "AttributeError",
            "'NoneType' object has no attribute 'id'",
        ),
        (
            'UniqueViolation: duplicate key violates unique constraint "users_pkey"\nDETAIL:  Key (id, x)=(4, 5)',
            "UniqueViolation",
            'duplicate key violates unique constraint "users_pkey" DETAIL: Key (id, x)=(<values>)',
        ),
        # So do codes.
        ("FileNotFoundError: [Errno 2] No such file: '/a/b'", "FileNotFoundError", "[Errno 2] No such file: <string>"),
        ("its process was killed by signal 9", "", "its process was killed by signal 9"),
        ("HTTPError: HTTP Error 404: Not Found", "HTTPError", "HTTP Error 404: Not Found"),
        ("HTTPError: status_code=503, 17 ms", "HTTPError", "status_code=503, <number> ms"),
        ("X: 404 Client Error: gone", "X", "404 Client Error: gone"),
        ("X: code 123456789", "X", "code <number>"),
        # Ids, times, places.
        ("X: 0b3f0d3e-6a49-4c0a-9d39-7d6d6a1f3c11 is gone", "X", "<id> is gone"),
        ("X: cus_9s6XKzkNRiz8i3 is gone", "X", "<id> is gone"),
        ("X: <Order object at 0x7f3a2b>", "X", "<Order object at <hex>>"),
        ("X: at 2026-11-18T02:33:43.123Z", "X", "at <time>"),
        ("X: at 2026-11-18 02:33:43+00:00 again", "X", "at <time> again"),
        ("X: cannot read /var/lib/app/17.txt", "X", "cannot read <path>"),
        ("X: mail to ann@example.com bounced", "X", "mail to <address> bounced"),
        ("X: https://api.example.com/v1/orders/17?x=1 failed", "X", "https://api.example.com/<path> failed"),
        ("X: [1, 2, 3] and [1, 2]", "X", "[<values>] and [<values>]"),
        ("", "", ""),
        ("   \n\t ", "", ""),
        ("X: a\x01\x02\nb", "X", "a b"),
    ],
)
def test_what_differs_from_one_failure_to_the_next_is_replaced(
    connection: Connection[Any], error: str, exception: str, message: str
) -> None:
    assert normal(connection, error) == (exception, message)


def test_the_name_of_the_worker_is_replaced(connection: Connection[Any]) -> None:
    error = "worker web-a:4711:xyz did not renew its lease within 00:00:10"
    assert normal(connection, error, "web-a:4711:xyz") == (
        "",
        "worker <worker> did not renew its lease within <number>",
    )


@pytest.mark.parametrize(
    "hostile",
    [
        "X: " + "a" * 5_000_000,
        "X: " + "1" * 5_000_000,
        "X: " + "'" * 100_000,
        "X: " + '"a' * 100_000,
        "X: " + "a@" * 100_000,
        "X: " + "/a" * 100_000,
        "X: " + "a-1_" * 100_000,
        "X: " + "://" * 100_000,
        "X: " + "<id>, " * 100_000,
        "A." * 100_000 + ": x",
        "\u202e\u0000"[:1] * 100_000,
        "X: '" + "y" * 100_000,
    ],
    ids=range(12),
)
def test_hostile_text_is_quick_and_short(connection: Connection[Any], hostile: str) -> None:
    connection.execute("set local statement_timeout = '5s'")
    start = time.process_time()
    exception, message = normal(connection, hostile)
    assert len(exception) <= 100
    assert len(message) <= 300
    assert time.process_time() - start < 5


def test_the_cost_does_not_grow_with_the_text(connection: Connection[Any]) -> None:
    """By the server's clock, the quickest of several: 100 times the text takes no more than a few times as long."""

    def seconds(error: str) -> float:
        took = []
        for _ in range(5):
            row = connection.execute(
                "with begun as materialized (select clock_timestamp() as at),"
                " done as materialized (select begun.at, n.message from begun, lateral normalise_error(%s) as n)"
                " select extract(epoch from clock_timestamp() - at) from done",
                [error],
            ).fetchone()
            assert row
            took.append(float(row[0]))
        return min(took)

    text = "a1-b@c.d/e'f\" 17, " * 60
    assert seconds("X: " + text * 100) < 20 * max(seconds("X: " + text), 0.0005)


def test_text_that_is_longer_than_what_is_read_is_one_group(connection: Connection[Any]) -> None:
    one, other = (normal(connection, f"X: cannot read '{each * 3000}'") for each in "ab")
    assert one == other == ("X", "cannot read <string>")
