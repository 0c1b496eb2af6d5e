"""Makes docs/demo.svg, the picture in the README, from the demo itself: python docs/make_picture.py"""

import os
import re
import tempfile
import time
from io import StringIO
from pathlib import Path

from rich.console import Console

from treadle import migrate
from treadle.cli import demo, demo_jobs
from treadle.db.embedded import embedded_url, leave


def main() -> None:
    console = Console(record=True, width=82, file=StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory(prefix="treadle-picture-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        url = os.environ["TREADLE_DATABASE_URL"] = embedded_url(folder)
        migrate(url, demo_jobs.app.schema)
        handles = demo.enqueue()
        with demo.worker(url):
            # When some have ended, one has failed and will be tried again, and the rest is on its way.
            while not any(handle.job().last_error for handle in handles):
                time.sleep(0.05)
            time.sleep(0.5)
            console.print("$ treadle demo\n")
            console.print(demo.table([handle.job() for handle in handles]))
        demo_jobs.app.close()
        leave(folder)
    picture = console.export_svg(title="treadle demo")
    # Rich names fonts on somebody's server; the picture should ask nobody for anything.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (Path(__file__).parent / "demo.svg").write_text(picture)


if __name__ == "__main__":
    main()
