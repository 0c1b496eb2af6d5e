"""Mount the dashboard in a web application that authenticates its users, and call its JSON API.

Install: pip install "treadle[embedded,web]" httpx
"""

import asyncio

import httpx
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from treadle import Treadle
from treadle.web import Role, Visitor, dashboard_app

app = Treadle()
ROLES = {"ada": Role.OPERATOR, "grace": Role.VIEWER}


@app.job
async def send_letter(to: str) -> None: ...


def who(connection: HTTPConnection) -> Visitor | None:
    """In a real application, take the user from your session. None denies access."""
    user = connection.headers.get("x-user", "")
    # by_token: a browser does not send this header by itself, so changes need no CSRF token.
    return Visitor(ROLES[user], user, by_token=True) if user in ROLES else None


web = Starlette(routes=[Mount("/queue", dashboard_app(app, authorize=who))])


async def main() -> None:
    letter = await send_letter.aenqueue("bob")
    transport = httpx.ASGITransport(web)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.example/queue/api", timeout=60) as client:
        for user in ("mallory", "grace", "ada"):
            answer = await client.post(f"/jobs/{letter.id}/cancel", json={"reason": "moved"}, headers={"x-user": user})
            print(user, answer.status_code)
        job = (await client.get(f"/jobs/{letter.id}", headers={"x-user": "ada"})).json()
        print(job["status"], job["data"], [(each["actor"], each["action"]) for each in job["audit"]])
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
