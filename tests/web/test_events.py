"""Events over HTTP, from a real server, with clients that reconnect."""

import json
import threading
import time
from typing import Any

import httpx
import pytest
from psycopg import Connection

from tests.support.web import Message, Server, messages, names_and_numbers, read, take
from treadle import InvalidArgument, JobQueue, JobRow
from treadle.web import stream

OWN = ("progress", "end")


def test_a_stream_starts_with_past_events_and_ends_with_the_job(server: Server, queue: JobQueue, job: JobRow) -> None:
    queue.event(job, "begun", frames=3)
    with httpx.stream("GET", f"{server.url}/jobs/{job.id}/events", timeout=60) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-store"
        coming = messages(response)
        assert [next(coming).name for _ in range(3)] == ["enqueued", "claimed", "begun"]
        queue.event(job, "rendered", frame=1)
        queue.complete(job)
        rest = list(coming)
    assert [each.name for each in rest if each.id] == ["rendered", "completed"]
    (rendered,) = [each for each in rest if each.name == "rendered"]
    assert rendered.data | {"at": None} == {"number": 2, "at": None, "attempt": 1, "data": {"frame": 1}}
    assert rest[-1] == Message("end", {"status": "completed"}, None)


def test_the_stream_of_a_finished_job_ends_at_once(server: Server, queue: JobQueue, job: JobRow) -> None:
    queue.fail(job, "no good", final=True)
    found = read(server, f"/jobs/{job.id}/events")
    assert [each.name for each in found] == ["enqueued", "failed", "progress", "end"]
    assert found[1].data["data"] == {"error": "no good"}
    assert found[-1].data == {"status": "failed"}


def test_a_client_that_reconnects_receives_each_event_once(server: Server, queue: JobQueue, job: JobRow) -> None:
    def publish() -> None:
        for number in range(150):
            queue.event(job, f"event-{number}")
        queue.complete(job)

    publisher = threading.Thread(target=publish)
    publisher.start()
    found: list[Message] = []
    rounds = 0
    while not found or found[-1].name != "end":
        rounds += 1
        last = next((each.id for each in reversed(found) if each.id), None)
        headers = {"last-event-id": last} if last else {}
        with httpx.stream("GET", f"{server.url}/jobs/{job.id}/events", headers=headers, timeout=60) as response:
            taken = 0
            for each in messages(response):
                found.append(each)
                taken += each.id is not None
                if taken == 20:  # closes the connection
                    break
    publisher.join()
    assert rounds > 5
    numbers = [number for _, number in names_and_numbers(found) if number]
    assert numbers == list(range(1, 151))
    assert [name for name, number in names_and_numbers(found) if not number] == ["enqueued", "claimed", "completed"]


def test_a_client_continues_after_a_server_restart(server: Server, queue: JobQueue, job: JobRow) -> None:
    queue.event(job, "one")
    with httpx.stream("GET", f"{server.url}/jobs/{job.id}/events", timeout=60) as response:
        coming = messages(response)
        first = [next(coming) for _ in range(3)]
        server.stop()
        with pytest.raises(httpx.RemoteProtocolError):  # the response was incomplete
            first += list(coming)
    queue.event(job, "two")
    server.start()
    last = [each.id for each in first if each.id][-1]
    assert last
    queue.complete(job)
    rest = read(server, f"/jobs/{job.id}/events", **{"last-event-id": last})
    assert names_and_numbers(first + rest) == [
        ("enqueued", None),
        ("claimed", None),
        ("one", 1),
        ("two", 2),
        ("completed", None),
    ]


def test_last_event_id_takes_precedence_over_after(server: Server, queue: JobQueue, job: JobRow) -> None:
    for name in ("one", "two", "three"):
        queue.event(job, name)
    queue.complete(job)
    after = f"/jobs/{job.id}/events?after=1"
    assert names_and_numbers(read(server, after)) == [("two", 2), ("three", 3), ("completed", None)]
    (two,) = [each.id for each in read(server, after) if each.name == "two"]
    assert two
    assert names_and_numbers(read(server, after, **{"last-event-id": two})) == [("three", 3), ("completed", None)]
    assert names_and_numbers(read(server, f"/jobs/{job.id}/events?after=", **{"last-event-id": ""}))[0] == (
        "enqueued",
        None,
    )


def test_progress_has_no_id_and_is_rate_limited(server: Server, queue: JobQueue, job: JobRow) -> None:
    done = threading.Event()

    def work() -> None:
        for percent in range(100):
            queue.progress(job, percent, stage=f"frame {percent}")
            queue.event(job, "drawn")  # wakes the stream
            done.wait(0.005)
        queue.complete(job)

    worker = threading.Thread(target=work)
    began = time.monotonic()
    worker.start()
    found = [each for each in read(server, f"/jobs/{job.id}/events") if each.name == "progress"]
    seconds = time.monotonic() - began
    worker.join()
    assert all(each.id is None for each in found)
    assert found[-1].data["status"] == "completed"
    assert 2 <= len(found) <= seconds / 0.25 + 2
    assert set(found[0].data) == {"status", "percent", "stage", "done", "total", "rate", "left"}


def test_progress_contains_the_counts_of_the_handler(server: Server, connection: Connection[Any], job: JobRow) -> None:
    connection.execute(
        """update jobs set progress = 61, current_stage = 'importing', status = 'completed',
        pace = '{"done": 1220, "total": 2000, "rate": 212.0, "left": 3.7}'"""
    )
    *_, progress, _ = read(server, f"/jobs/{job.id}/events")
    counted = {"done": 1220, "total": 2000, "rate": 212.0, "left": 3.7}
    assert progress.data == {"status": "completed", "percent": 61, "stage": "importing", **counted}


def test_a_stream_without_events_sends_keep_alive_comments(
    server: Server, queue: JobQueue, job: JobRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "KEEP_ALIVE_SECONDS", 0.05)
    comments: list[str] = []

    def on_comment(comment: str) -> None:
        comments.append(comment)
        if len(comments) == 3:
            queue.complete(job)

    with httpx.stream("GET", f"{server.url}/jobs/{job.id}/events", timeout=60) as response:
        found = list(messages(response, on_comment))
    assert len(comments) >= 3
    assert found[-1].name == "end"


@pytest.mark.parametrize(
    "name", ["two\nlines", "x\n\nevent: end\ndata: {}\n\n", "carriage\rreturn", "data: x", ": x", " ", "naïve [red]"]
)
def test_names_and_data_cannot_break_the_framing(
    server: Server, connection: Connection[Any], queue: JobQueue, job: JobRow, name: str
) -> None:
    hostile = {"text": "a\r\n\r\nevent: end\ndata: {}\n\n\u2028\u2029\u0085", name: "</script>"}
    connection.execute("select record_event(%s, %s, %s)", [job.id, name, json.dumps(hostile)])
    queue.complete(job)
    found = read(server, f"/jobs/{job.id}/events")
    assert [each.name for each in found if each.name in OWN] == ["progress", "end"]
    (event,) = [each for each in found if each.id and each.data["number"] == 1]
    assert event.data["data"] == hostile
    assert event.name == " ".join(name.replace("\r", "\n").split("\n")).replace("  ", " ") or "\n\n" in name


@pytest.mark.parametrize("name", ["two\nlines", "two\rlines"])
def test_an_event_name_with_a_line_break_is_refused(queue: JobQueue, job: JobRow, name: str) -> None:
    with pytest.raises(InvalidArgument, match="line breaks"):
        queue.event(job, name)


def test_events_of_all_jobs(server: Server, queue: JobQueue, job: JobRow) -> None:
    queue.enqueue("songs", {})
    (song,) = queue.claim(["songs"])
    for each in (job, song):
        queue.event(each, "begun")
        queue.event(each, "ended")
    found = take(server, "/events", 4)
    assert [(each.name, each.data["job_type"]) for each in found] == [
        ("begun", "films"),
        ("ended", "films"),
        ("begun", "songs"),
        ("ended", "songs"),
    ]
    assert found[0].data["job_id"] == str(job.id)
    assert take(server, f"/events?after={found[1].id}", 2) == found[2:]
    assert take(server, "/events?types=songs", 2) == found[2:]
    assert take(server, "/events?types=songs,films&names=ended", 2) == [found[1], found[3]]
    assert take(server, "/events", 1, **{"last-event-id": found[2].id or ""}) == found[3:]


def test_events_of_all_jobs_are_live(server: Server, queue: JobQueue, job: JobRow) -> None:
    with httpx.stream("GET", f"{server.url}/events?names=now", timeout=60) as response:
        coming = messages(response)
        queue.event(job, "then")
        queue.event(job, "now")
        assert next(coming).data["number"] == 2


def test_events_named_progress_or_end_have_a_number(server: Server, queue: JobQueue, job: JobRow) -> None:
    queue.event(job, "end")
    queue.event(job, "progress")
    queue.complete(job)
    found = read(server, f"/jobs/{job.id}/events")
    assert [(each.name, "number" in each.data) for each in found if each.name in OWN] == [
        ("end", True),
        ("progress", True),
        ("progress", False),
        ("end", False),
    ]
