"""A web application that serves the events of its jobs to browsers, and a client that reads them.

Install: pip install "treadle[embedded,web]" httpx
"""

import asyncio
import json
import socket

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from treadle import Job, Treadle
from treadle.web import events_app

app = Treadle()
web = Starlette(routes=[Mount("/queue", events_app(app))])  # protect this with your own middleware


@app.job
async def import_rows(job: Job, rows: int) -> int:
    for row in job.track(range(rows), stage="importing"):
        await asyncio.sleep(0.02)
        if row % 20 == 10:
            job.event("checked", row=row)
    return rows


async def read(address: str) -> None:
    """What `new EventSource(address)` does in a browser."""
    async with httpx.AsyncClient(timeout=60) as client, client.stream("GET", address) as response:
        name = ""
        async for line in response.aiter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data" and name == "checked":
                print(name, json.loads(value)["data"]["row"])
            elif field == "data" and name == "end":
                print(name, json.loads(value)["status"])


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    # Event streams do not end when the server stops, so limit how long it waits for them.
    server = uvicorn.Server(uvicorn.Config(web, log_level="error", timeout_graceful_shutdown=3))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    async with app.worker():
        handle = await import_rows.aenqueue(rows=50)
        await read(f"http://127.0.0.1:{listening.getsockname()[1]}/queue/jobs/{handle.id}/events")
    server.should_exit = True
    await serving
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
