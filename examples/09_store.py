"""A large file as an argument and as a result: the payload contains a reference, and the bytes are streamed.

Install: pip install "treadle[embedded]"
"""

import asyncio
import tempfile
from pathlib import Path

from treadle import Stored, Treadle

app = Treadle()


@app.job
def count_lines(report: Stored) -> Stored:
    with app.open(report) as file:
        lines = sum(1 for _ in file)
    return app.store(b"%d lines" % lines, name="counted.txt")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.txt"
        path.write_bytes(b"ten bytes\n" * 300_000)
        report = await app.astore(path)
    print(f"{report.name}: {report.size:,} bytes")

    async with app.worker():
        counted = await (await count_lines.aenqueue(report)).aresult(timeout=30)
    print(f"{counted.name}: {await app.aread(counted)!r}")
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
