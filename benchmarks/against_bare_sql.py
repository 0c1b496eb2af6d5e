"""Compares the queue with bare SQL on the same server, like `treadle bench`, and saves the raw figures.

python -m benchmarks.against_bare_sql [URL]
"""

import json
import sys
from pathlib import Path

from rich.console import Console

from treadle.cli.bench import as_dict, measure, show
from treadle.db.url import resolve


def main() -> None:
    report = measure(resolve(sys.argv[1] if len(sys.argv) > 1 else None).url)
    show(Console(), report)
    Path(__file__).with_suffix(".json").write_text(json.dumps(as_dict(report), indent=2) + "\n")


if __name__ == "__main__":
    main()
