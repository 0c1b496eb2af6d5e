"""The numbers of jobs that the overview page, top, stats, the API and metrics show, as people see them."""

import json
import re
from html import unescape
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

import httpx
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from treadle import Treadle
from treadle.cli.stats import stats
from treadle.cli.top.columns import LANES, LaneNow
from treadle.cli.top.header import second_line
from treadle.cli.top.refresh import Refresher
from treadle.web.dashboard import Role, Visitor, dashboard_app

# A status, or a queue, type and priority.
Key: TypeAlias = tuple[str, ...]

TILE = re.compile(r'<div class="(?!tile)(\w+)"><dt><a[^>]*>[^<]*</a></dt><dd>(.*?)</dd>')
ROW = re.compile(
    r'<th scope="row"><a href="/type\?name=([^"]*)">[^<]*</a></th>\s*'
    r'<td data-label="Queue"><a href="/queue\?name=([^"]*)">[^<]*</a></td>\s*'
    r'<td data-label="Priority" class="number">(-?\d+)</td>\s*'
    r'<td data-label="Waiting" class="number"><a[^>]*>(.*?)</a></td>'
)
LINE = re.compile(r"waiting (\S+)   running (\S+)")
_MAX_WIDTH = 200


class Number(NamedTuple):
    jobs: int
    exact: bool


Numbers: TypeAlias = dict[Key, Number]


class Surfaces:
    def __init__(self, url: str) -> None:
        self._url = url
        self._app = Treadle(url)
        self._app.database.use(url)
        self._site = dashboard_app(self._app, authorize=lambda _: Visitor(Role.VIEWER, "truth"))
        self._refresher = Refresher(self._app)

    async def _get(self, path: str) -> str:
        transport = httpx.ASGITransport(self._site)
        async with httpx.AsyncClient(transport=transport, base_url="http://truth") as client:
            return (await client.get(path, headers={"accept": "text/html, */*"})).raise_for_status().text

    async def page(self) -> Numbers:
        html = await self._get("/")
        found: Numbers = {(status,): read(text) for status, text in TILE.findall(html)}
        for name, queue, priority, text in ROW.findall(html):
            found[unquote(queue), unquote(name), priority] = read(text)
        return found

    async def api(self) -> Numbers:
        return read_json(json.loads(await self._get("/api/overview")))

    async def stats(self) -> Numbers:
        result = CliRunner().invoke(stats, ["--json", "--database-url", self._url], catch_exceptions=False)
        return read_json(json.loads(result.stdout))

    async def top(self) -> Numbers:
        """What its screen is drawn from, drawn."""
        snapshot = await self._refresher.first_snapshot()
        shown = LINE.search(second_line(snapshot.overview, _MAX_WIDTH).plain)
        assert shown, "the second line has these numbers"
        found: Numbers = {("pending",): read(shown[1]), ("running",): read(shown[2])}
        waiting = next(column for column in LANES.columns if column.title == "waiting")
        for lane in snapshot.overview.lanes:
            now = LaneNow(lane, snapshot.overview.at)
            found[lane.queue, lane.job_type, str(lane.priority)] = read(str(waiting.cell(now, 20)))
        # The list below the number.
        assert found["running",].jobs == len(snapshot.jobs), "as many jobs are listed as are said to run"
        return found

    async def metrics(self) -> Numbers:
        """By type and queue, without priorities."""
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(await self._get("/metrics"))
            for sample in family.samples
        }
        found = {}
        for name in ("treadle_jobs", "treadle_jobs_waiting"):
            for (metric, *key), value in samples.items():
                if metric == name:
                    found[tuple(key)] = Number(int(value), not samples[f"{name}_is_estimated", *key])
        return found

    async def close(self) -> None:
        await self._app.aclose()


def read(text: str) -> Number:
    """7,000 or ≈300,000 or 50,000+, with or without tags."""
    plain = unescape(re.sub("<.*?>", "", text)).strip()
    return Number(int(re.sub(r"\D", "", plain)), plain[0] != "≈" and plain[-1] != "+")


def read_json(found: dict[str, object]) -> Numbers:
    totals, lanes = found["totals"], found["lanes"]
    assert isinstance(totals, dict)
    assert isinstance(lanes, list)
    numbers: Numbers = {(status,): Number(each["jobs"], each["exact"]) for status, each in totals.items()}
    for each in lanes:
        numbers[each["queue"], each["job_type"], str(each["priority"])] = Number(each["depth"], each["exact"])
    return numbers
