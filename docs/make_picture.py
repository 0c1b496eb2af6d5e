"""Makes docs/demo.svg, the picture in the README, from the demo itself: python docs/make_picture.py"""

import os
import re
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console, RenderableType

from treadle import Status, migrate
from treadle.app.bars import Bars
from treadle.app.sight import sights
from treadle.cli import demo, demo_cast, demo_jobs
from treadle.db.embedded import embedded_url, leave
from treadle.words.sight import Sight

# As wide as rich draws one.
CHARACTER = 12.2


def main() -> None:
    console = Console(record=True, width=84, height=30, file=StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory(prefix="treadle-picture-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        url = os.environ["TREADLE_DATABASE_URL"] = embedded_url(folder)
        migrate(url, demo_jobs.app.schema)
        with demo.running_worker(url) as worker:
            worker.started()
            parts = demo_cast.enqueue().parts
            bars = Bars(console, {part.handle.id: part.label for part in parts})
            frames: list[tuple[int, RenderableType]] = []
            for sight in sights(demo_jobs.app, [part.handle.id for part in parts]):
                seen = {each.id: each for each in sight.jobs}
                bars.show(sight._replace(jobs=[seen[part.handle.id] for part in parts]))
                frames.append((telling(sight), bars.draw()))
                if seen[parts[3].handle.id].status.finished:
                    break
            _, best = max(frames, key=lambda frame: frame[0])
            console.print("$ treadle demo\n")
            console.print(best)
        demo_jobs.app.close()
        leave(folder)
    picture = console.export_svg(title="treadle demo")
    # Rich names fonts on somebody's server; the picture should ask nobody for anything.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    # Some renderers drop spaces at the beginning of a text: it begins where its first letter is.
    picture = re.sub(r'x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>((?:&#160;)+)(?=[^&<])', moved, picture)
    (Path(__file__).parent / "demo.svg").write_text(picture)


def moved(text: re.Match[str]) -> str:
    x, y, length, rest, spaces = text.groups()
    width = CHARACTER * spaces.count("&")
    return f'x="{float(x) + width:g}" y="{y}" textLength="{float(length) - width:g}"{rest}>'


def telling(sight: Sight) -> int:
    """How much a picture of it would show: jobs on their way, and some that have ended or are tried again."""
    ended = sum(each.status == Status.COMPLETED for each in sight.jobs)
    again = any(each.status == Status.PENDING and each.error for each in sight.jobs)
    under_way = sum(each.status == Status.RUNNING and 5 < each.progress.percent < 95 for each in sight.jobs)
    return under_way + min(ended, 3) + 3 * again


if __name__ == "__main__":
    main()
