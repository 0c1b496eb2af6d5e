"""The application for tests of stored contents: handlers of each kind that read one content and store another."""

from pathlib import Path

from treadle import Stored, Treadle

app = Treadle()


@app.job
async def on_the_loop(text: Stored) -> Stored:
    return await app.astore((await app.aread(text)).upper(), name="loop")


@app.job
def on_a_thread(text: Stored) -> Stored:
    with app.open(text) as file:
        return app.store(file.read().upper(), name="thread")


@app.job(process=True)
def in_a_process(text: Stored, folder: Path) -> list[Stored]:
    (folder / "result").write_bytes(app.read(text).upper())
    return [app.store(folder / "result"), text]
