"""Remedies as links, and the reason on the page of a job that refreshes itself."""

import re
from typing import Any
from uuid import uuid4

import pytest
from markupsafe import Markup
from psycopg import Connection

from tests.support.dashboards import VIEWER, Browser, Site
from treadle import JobQueue
from treadle.doctor.examine import NAMES
from treadle.web.dashboard.pages.remedies import _OF_FINDINGS, linked


def get(browser: Browser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def why(browser: Browser, job: object) -> str:
    found = re.search('<div id="why-region">.*?</div>', get(browser, f"/jobs/{job}"), re.DOTALL)
    assert found
    return found[0]


def test_ids_in_a_text_are_links_and_the_rest_is_escaped() -> None:
    job = uuid4()
    text = linked(f"<b>waits for job {job}, {job}x <i>", lambda path: f"/queue{path}")
    assert isinstance(text, Markup)
    assert text.startswith("&lt;b&gt;waits for job <a ")
    assert text.count(f'href="/queue/jobs/{job}"') == 1
    assert text.endswith(f", {job}x &lt;i&gt;")


def test_the_blocking_job_is_a_link(operator: Browser, queue: JobQueue) -> None:
    first, second = queue.enqueue("films", key="a"), queue.enqueue("films", key="a")
    box = why(operator, second)
    assert box.count(f'href="/jobs/{first}"') >= 2, "in the sentence, and as a button"


def test_a_paused_job_has_a_button_that_leads_to_the_form(operator: Browser, site: Site, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    operator.post("/pauses", {"job_type": "films"})
    box = why(operator, job)
    assert 'href="/resume?job_type=films"' in box
    assert "Resume" in get(operator, "/resume?job_type=films")
    assert "/resume" not in why(site.signed_in(VIEWER), job), "viewers cannot"


def test_a_job_without_attempts_can_be_cancelled(
    operator: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    job = queue.enqueue("films")
    connection.execute("update jobs set attempts = 3, max_attempts = 3")
    assert f'href="/bulk?action=cancel&amp;ids={job}"' in why(operator, job)
    assert "<h1>Cancel 1 job</h1>" in get(operator, f"/bulk?action=cancel&ids={job}")


def test_a_limit_has_a_button(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select set_limit('cinema', 0, p_job_type => 'films')")
    job = queue.enqueue("films")
    found = re.search('href="(/limits/[^"]+)"', why(operator, job))
    assert found
    assert "cinema" in get(operator, found[1].replace("&amp;", "&"))


def test_findings_have_buttons(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    operator.post("/pauses", {"job_type": "films"})
    connection.execute("update pauses set paused_at = now() - interval '3 days'")
    queue.enqueue("films")
    connection.execute("update jobs set run_at = now() - interval '2 hours'")
    assert '<a class="button" href="/#pauses">Resume…</a>' in get(operator, "/health")


@pytest.mark.parametrize("name", _OF_FINDINGS)
def test_buttons_belong_to_findings_that_exist(name: str) -> None:
    assert name in NAMES
