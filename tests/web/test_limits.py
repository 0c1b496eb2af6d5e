"""Limits on the dashboard: the list, the page of one with its keys, live updates, the actions of operators, the API."""

import json
import re
from typing import Any

import httpx
import pytest
from psycopg import Connection

from tests.queue.test_limits import aging, claim, enqueue, limit, take_turns
from tests.support.browser import Visit
from tests.support.buffers import buffers
from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from tests.support.web import Server, messages
from treadle import Treadle
from treadle.web.dashboard.pages.limits import KEYS_IN_LIST, LIMITS, grouped


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.signed_in(VIEWER)


@pytest.fixture
def program(site: Site) -> Browser:
    return site.program(OPERATOR)


def get(browser: Browser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", answer.text)


def rows(page: str) -> list[str]:
    """The text of each row of the table, with single spaces."""
    found = re.findall(r"<tr[ >].*?</tr>", page.partition("<tbody>")[2])
    return [" ".join(re.sub(r"<[^>]*>", " ", each).replace("\u2013", "-").split()) for each in found]


def audit(connection: Connection[Any]) -> list[Any]:
    return connection.execute("select action, actor, reason from audit order by id").fetchall()


def wait_for_limit(connection: Connection[Any]) -> None:
    """Tenant acme has reached its limit of 2, and 3 of its jobs wait; globex uses 1."""
    limit(connection, 2, per="tenant")
    enqueue(connection, 5, "acme")
    enqueue(connection, 1, "globex")
    claim(connection)
    claim(connection)


# The list


def test_an_empty_list_shows_how_to_declare_a_limit(operator: Browser) -> None:
    assert "treadle limits add" in get(operator, "/limits")


def test_the_list_shows_use_waiting_jobs_and_what_was_changed(operator: Browser, connection: Connection[Any]) -> None:
    wait_for_limit(connection)
    limit(connection, 10, 3600.0, name="api", burst=20, job_types=["other"])
    connection.execute("select set_limit('api', 5, p_actor => 'postgresql://ada:hush-hush-hush-hush@db/films')")
    connection.execute("select set_limit('sync', 0, p_key => 'zed', p_actor => 'ann')")
    connection.execute("select set_limit('mail', 3, p_queue => 'mail')")
    page = get(operator, "/limits")
    sync, acme, zed, more, api, mail = rows(page)
    assert sync == "sync sync 2 at once each tenant - 3 - Set sync … Pause sync …"
    assert acme == "sync, tenant acme 2 at once 2 of 2 3 when one ends Set sync for acme … Pause sync for acme …"
    assert re.fullmatch(
        r"sync, tenant zed 0 at once - 0 paused ann [-0-9 :]+UTC Set sync for zed … Resume sync for zed …", zed
    )
    assert more == "1 more key of sync"
    assert 'href="/limit?name=sync"' in page
    assert 'href="/limits/pause?back=%2Flimits&amp;name=sync&amp;key=acme"' in page
    assert '<progress max="2" value="2" aria-hidden="true" class=reached>' in page
    assert api.startswith("api other 5 per hour, burst 20 in code: 10 per hour, burst 20 20 of 20 left 0 now")
    assert "ada:********@db" in api
    assert "Reset api …" in api
    assert mail.startswith("mail queue mail 3 at once added at run time 0 of 3 0 now")
    assert "Remove mail …" in mail
    assert "hush" not in page


def test_weights_are_shown_as_such(operator: Browser, connection: Connection[Any]) -> None:
    take_turns(connection)
    take_turns(connection, "", "")
    connection.execute("select set_limit('sync fair', 5, p_key => 'acme')")
    page = get(operator, "/limits")
    types, fair, acme = rows(page)
    assert types == "job types fair weight 1 each job type - - -"
    assert fair == "sync fair sync weight 1 each tenant - - -"
    assert acme.startswith("sync fair, tenant acme weight 5 - - -")
    assert "Reset sync fair for acme …" in acme
    assert "no limit" not in page
    assert "/limits/pause" not in page
    assert "Weight <input" in get(operator, "/limits/set?name=sync+fair&key=acme")


def test_limits_for_jobs_that_wait_and_aging(operator: Browser, app: Treadle, connection: Connection[Any]) -> None:
    limit(connection, 2, name="sync max_pending", when_full="refuse")
    aging(connection)
    enqueue(connection, 2)
    page = get(operator, "/limits")
    assert rows(page) == [
        "aging 10 of 100 claims after 1h 00m - - - Set aging …",
        "sync max_pending sync 2 waiting, then refuse 2 of 2 - full Set sync max_pending …",
    ]
    assert "Jobs that may wait <input" in get(operator, "/limits/set?name=sync+max_pending")
    form = get(operator, "/limits/set?name=aging")
    assert 'After <input name="period" maxlength="20" value="3600s"' in form
    assert "burst" not in form
    operator.post("/limits/set", {"name": "aging", "amount": "20", "period": "2h"})
    assert app.limits("aging")[0].description == "20 of 100 claims after 2h 00m"


def test_when_the_next_may_start_is_a_live_time(operator: Browser, connection: Connection[Any]) -> None:
    limit(connection, 1, 3600.0)
    enqueue(connection, 2)
    claim(connection)
    claim(connection)
    page = get(operator, "/limits")
    assert "0 of 1 left" in rows(page)[0]
    assert re.search(r'data-label="Next start"><time datetime="[^"]+" data-format="ago">', page)


def test_the_page_of_a_limit_shows_its_keys_and_finds_others(operator: Browser, connection: Connection[Any]) -> None:
    wait_for_limit(connection)
    enqueue(connection, 1, "")
    claim(connection)
    page = get(operator, "/limit?name=sync")
    assert [each.split(" 2 at once")[0] for each in rows(page)] == [
        "sync sync",
        "sync, tenant acme",
        "sync, no tenant",
        "sync, tenant globex",
    ]
    assert 'href="/limits/set?back=%2Flimit%3Fname%3Dsync&amp;name=sync&amp;without_value=1"' in page
    found = get(operator, "/limit?name=sync&key=new")
    assert [each.split(" 2 at once")[0] for each in rows(found)] == ["sync sync", "sync, tenant new"]
    assert 'href="/limits/set?back=%2Flimit%3Fname%3Dsync%26key%3Dnew&amp;name=sync&amp;key=new"' in found
    assert operator.get("/limit?name=nope").status_code == 404
    assert operator.get("/limit").status_code == 400
    assert operator.get(f"/limit?name=sync&key={'x' * 201}").status_code == 400


def test_limits_are_searched_by_name_and_type(operator: Browser, connection: Connection[Any]) -> None:
    limit(connection, 1)
    limit(connection, 2, name="other", job_types=["mail"])
    assert [each.split()[0] for each in rows(get(operator, "/limits?search=MAI"))] == ["other"]
    assert "No matching limits." in get(operator, "/limits?search=nothing")
    assert operator.get(f"/limits?search={'x' * 101}").status_code == 400


def test_viewers_see_no_actions(viewer: Browser, connection: Connection[Any]) -> None:
    wait_for_limit(connection)
    for path in ("/limits", "/limit?name=sync"):
        page = get(viewer, path)
        assert "acme" in page
        assert "/limits/pause" not in page


@pytest.mark.fresh_database
def test_ten_thousand_keys_neither_fill_the_page_nor_cost_more(
    operator: Browser, app: Treadle, connection: Connection[Any]
) -> None:
    limit(connection, 1, per="tenant")
    limit(connection, 5, name="zz")
    connection.execute("set session_replication_role = replica")
    park = """insert into lanes (queue, job_type, priority, partition, limit_name, limit_key, dormant_xid, changed_at)
        select 'default', 'sync', 100, format('{"tenant": "t%%s"}', nth), 'sync', 't' || nth, '3', now()
        from generate_series(%s::int, %s::int) as nth"""
    keys = """insert into limit_keys (name, key, amount, changed_by, changed_at)
        select 'sync', 't' || nth, 1, 'ann', now() from generate_series(%s::int, %s::int) as nth"""

    def cost() -> int:
        connection.execute("vacuum analyze lanes, limit_keys")
        return buffers(connection, f"select * from find_limits(null, {LIMITS})")

    connection.execute(park, [1, 300])
    connection.execute(keys, [1, 300])
    few = cost()
    connection.execute(park, [301, 10_000])
    connection.execute(keys, [301, 10_000])
    assert cost() < few * 1.5 + 500
    page = get(operator, "/limits")
    assert len(rows(page)) == 1 + KEYS_IN_LIST + 1 + 1
    assert rows(page)[6].startswith("At least ")
    assert rows(page)[7].startswith("zz")
    assert "More limits or keys exist" in page
    one = get(operator, "/limit?name=sync")
    assert len(rows(one)) == LIMITS
    assert len(one) < 200_000
    assert [each.split(" 1 at once")[0] for each in rows(get(operator, "/limit?name=sync&key=t9999"))] == [
        "sync sync",
        "sync, tenant t9999",
    ]


def test_a_limit_of_which_only_keys_are_listed(app: Treadle, connection: Connection[Any]) -> None:
    wait_for_limit(connection)
    (group,) = grouped([each for each in app.limits() if each.key is not None], 5)
    assert (group.limit, [each.key for each in group.keys], group.more) == (None, ["acme"], 1)


def test_the_list_is_updated_live(dashboard: Server, connection: Connection[Any]) -> None:
    limit(connection, 2, per="tenant")
    with httpx.stream("GET", f"{dashboard.url}/live/limits?name=sync", timeout=60) as response:
        updates = messages(response)
        assert "2 at once" in next(updates).data["html"]["limits"]
        assert next(updates).data["html"] == {}  # nothing has changed
        connection.execute("select set_limit('sync', 0, p_key => 'acme')")
        while "limits" not in (update := next(updates)).data["html"]:
            pass
        assert "acme" in update.data["html"]["limits"]
        connection.execute("delete from limits")
        while "limits" not in (update := next(updates)).data["html"]:
            pass
        assert "This limit no longer exists." in update.data["html"]["limits"]


# What operators change


def test_an_operator_sets_pauses_and_resets_a_limit(
    operator: Browser, app: Treadle, connection: Connection[Any]
) -> None:
    limit(connection, 2, per="a/b?c=d", name="a/b?c=d")
    back = "/limit?name=a/b%3Fc%3Dd"
    changes: list[tuple[str, dict[str, str], int | None, str]] = [
        ("set", {"amount": "7"}, 7, "Limit changed."),
        ("set", {"amount": "8", "key": "k&"}, 8, "Limit changed."),
        ("pause", {"key": "k&"}, 0, "Paused."),
        ("reset", {"key": "k&"}, None, "Limit reset."),
        ("pause", {"without_value": "1"}, 0, "Paused."),
        ("reset", {}, 2, "Limit reset."),
    ]
    for action, given, amount, notice in changes:
        target = {"name": "a/b?c=d", **given}
        get(operator, f"/limits/{action}?{httpx.QueryParams(target)}")
        answer = operator.post(f"/limits/{action}", {**target, "reason": "so", "back": back})
        assert (answer.status_code, answer.headers["location"]) == (303, f"/limit?name=a%2Fb%3Fc%3Dd&done={action}")
        assert notice in get(operator, answer.headers["location"])
        key = "" if "without_value" in given else given.get("key")
        assert next((each.amount for each in app.limits() if each.key == key), None) == amount
    assert audit(connection)[1] == ("limit", "dashboard:Ada", "a/b?c=d: k&: 8: so")
    assert [each[0] for each in audit(connection)] == ["limit", "limit", "limit", "reset limit", "limit", "reset limit"]
    assert "a/b?c=d: k&amp;: 8: so" in get(operator, "/audit")


def test_the_values_of_a_rate_are_set(operator: Browser, app: Treadle, connection: Connection[Any]) -> None:
    limit(connection, 10, 1.0, burst=20)
    form = get(operator, "/limits/set?name=sync")
    assert 'name="amount" type="number" min="0" max="100000" required value="10"' in form
    assert 'name="period" maxlength="20" value="1s"' in form
    operator.post("/limits/set", {"name": "sync", "amount": "30", "period": "1m", "burst": ""})
    assert app.limits()[0].description == "30 per minute, burst 20"
    for wrong in ({"amount": ""}, {"amount": "-1"}, {"amount": "1", "burst": "x"}, {"amount": "1", "period": "soon"}):
        assert operator.post("/limits/set", {"name": "sync", **wrong}).status_code == 400


def test_the_confirmation_says_what_happens(operator: Browser, connection: Connection[Any]) -> None:
    limit(connection, 2, per="tenant")
    connection.execute("select set_limit('sync', 0)")
    connection.execute("select set_limit('mail', 3, p_queue => 'mail')")
    assert "It becomes again what the code declares: 2 at once." in get(operator, "/limits/reset?name=sync")
    assert ">Resume</button>" in get(operator, "/limits/reset?name=sync")
    assert "so it is removed" in get(operator, "/limits/reset?name=mail")
    assert "It becomes 0 at once again, as for every other tenant." in get(operator, "/limits/reset?name=sync&key=acme")
    assert "No further jobs for tenant acme start" in get(operator, "/limits/pause?name=sync&key=acme")
    assert "for jobs without tenant" in get(operator, "/limits/set?name=sync&without_value=1")
    answer = operator.post("/limits/reset", {"name": "mail", "back": "/limit?name=mail"})
    assert answer.headers["location"] == "/limits?done=reset"


def test_nothing_to_reset_is_said(operator: Browser, connection: Connection[Any]) -> None:
    limit(connection, 2)
    get(operator, "/limits/reset?name=sync")
    answer = operator.post("/limits/reset", {"name": "sync"})
    assert answer.headers["location"] == "/limits?unfit=reset"
    assert "It was not changed." in get(operator, answer.headers["location"])
    assert audit(connection) == []


def test_a_limit_that_does_not_exist_is_an_error_page(operator: Browser, connection: Connection[Any]) -> None:
    limit(connection, 2)
    assert operator.get("/limits/pause?name=nope").status_code == 404
    get(operator, "/limits/pause?name=sync")
    assert operator.post("/limits/pause", {"name": "nope"}).status_code == 404
    assert operator.post("/limits/pause", {}).status_code == 400
    assert operator.post("/limits/pause", {"name": "sync", "key": "it has none"}).status_code == 400


def test_changes_need_the_role_and_the_csrf_token(
    site: Site, viewer: Browser, operator: Browser, connection: Connection[Any]
) -> None:
    limit(connection, 2)
    for action in ("set", "pause", "reset"):
        form = {"name": "sync", "amount": "1"}
        assert viewer.post(f"/limits/{action}", form).status_code == 403
        assert operator.post(f"/limits/{action}", {**form, "csrf_token": "x"}).status_code == 403
        assert site.browser().post(f"/limits/{action}", form).status_code == 401
    assert audit(connection) == []


# The API


def test_the_api_lists_limits(site: Site, connection: Connection[Any]) -> None:
    wait_for_limit(connection)
    limit(connection, 10, 3600.0, name="api", burst=20, job_types=["other"])
    api = site.program(VIEWER)
    found = api.send("GET", "/api/limits").json()
    assert [(each["name"], each["key"], each["waiting"]) for each in found["limits"]] == [
        ("sync", "acme", 3),
        ("api", None, 0),
        ("sync", None, 0),
        ("sync", "globex", 0),
    ]
    first, rate = found["limits"][:2]
    assert (first["description"], first["in_use"], first["reached"], first["paused"]) == ("2 at once", 2, True, False)
    assert (rate["available"], rate["seconds"], rate["burst"], rate["kind"]) == (20, 3600.0, 20, "rate")
    assert not found["more"]
    only = api.send("GET", "/api/limits?name=sync&key=new&limit=5").json()
    assert [each["key"] for each in only["limits"]] == [None, "new"]
    assert [each["name"] for each in api.send("GET", "/api/limits?search=AP").json()["limits"]] == ["api"]
    assert api.send("GET", "/api/limits?limit=1").json()["more"]
    for query in ("key=a", "name=a&search=b", "limit=201", "name="):
        assert api.send("GET", f"/api/limits?{query}").status_code == 400


def test_the_api_changes_limits(site: Site, program: Browser, app: Treadle, connection: Connection[Any]) -> None:
    limit(connection, 2, 1.0, per="tenant")

    def post(action: str, **body: Any) -> Any:
        answer = program.send("POST", f"/api/limits/{action}", json={"name": "sync", **body})
        return answer.json().get("done", answer.status_code)

    assert post("set", amount=7, seconds=60, burst=9, reason="r")
    assert app.limits()[0].description == "7 per minute, burst 9"
    assert post("pause", key="acme")
    assert post("pause", key="")
    assert post("reset", key="acme")
    assert (post("reset"), post("reset")) == (True, False)
    assert (post("set", amount=None), app.limits()[0].amount) == (True, None)
    assert audit(connection)[0] == ("limit", "dashboard:token (operator)", "sync: 7: r")
    assert [post("set"), post("set", amount=-1), post("set", amount="3"), post("set", amount=1, seconds=0)] == [400] * 4
    assert [post("pause", name="nope"), post("set", amount=1, key="k", burst=2)] == [404, 400]
    body = json.dumps({"name": "sync"})
    headers = {"content-type": "application/json"}
    assert site.program(VIEWER).send("POST", "/api/limits/pause", content=body, headers=headers).status_code == 403


# In a browser


def test_an_operator_changes_a_limit_in_a_browser(visit: Visit, app: Treadle, connection: Connection[Any]) -> None:
    wait_for_limit(connection)
    page = visit.live("/limits")
    page.get_by_role("link", name="Set sync for acme").click()
    page.get_by_label("Jobs at once").fill("5")
    page.get_by_label("Reason").fill("they pay")
    page.get_by_role("button", name="Set").click()
    page.get_by_text("Limit changed.").wait_for()
    page.locator("tr.key", has_text="acme").get_by_text("2 of 5").wait_for()
    # What others do appears without reloading.
    claim(connection)
    page.locator("tr.key", has_text="acme").get_by_text("5 of 5").wait_for()
    page.get_by_role("link", name="Reset sync for acme").click()
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("Limit reset.").wait_for()
    assert {each.amount for each in app.limits()} == {2}
    assert visit.problems == []
