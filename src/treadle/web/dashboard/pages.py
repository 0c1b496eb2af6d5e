"""The pages: each module has some of them."""

from treadle.app import Treadle
from treadle.web.dashboard import pages_job, pages_jobs, pages_live, pages_more, pages_overview
from treadle.web.dashboard.health import Health
from treadle.web.dashboard.live import Live
from treadle.web.dashboard.routes import Rule


def rules(app: Treadle, doctor: Health) -> list[Rule]:
    live = Live(app)
    return [
        *pages_overview.rules(app, live),
        *pages_jobs.rules(app),
        *pages_job.rules(app),
        *pages_more.rules(app, doctor),
        *pages_live.rules(app, live),
    ]
