"""Makes docs/demo.svg, the picture in the README, from the demo itself: python docs/make_picture.py"""

import re
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console

from treadle import JobQueue, migrate
from treadle.cli.demo import SCHEMA, show_step, steps
from treadle.db.embedded import embedded_url, leave

SHOWN = ("Ann works", "Bob was silent")


def main() -> None:
    console = Console(record=True, width=82, file=StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory(prefix="treadle-picture-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        url = embedded_url(folder)
        migrate(url, SCHEMA)
        with JobQueue(url, "ann", schema=SCHEMA) as ann, JobQueue(url, "bob", schema=SCHEMA) as bob:
            for title in steps(ann, bob):
                if title.startswith(SHOWN):
                    show_step(console, title, ann)
        leave(folder)
    picture = console.export_svg(title="treadle demo")
    # Rich names fonts on somebody's server; the picture should ask nobody for anything.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (Path(__file__).parent / "demo.svg").write_text(picture)


if __name__ == "__main__":
    main()
