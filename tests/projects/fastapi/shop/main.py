"""The web application: uvicorn shop.main:web --timeout-graceful-shutdown 3

With SHOP_WORKER=1, the process also runs the jobs. Otherwise, run `treadle worker` beside it.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated
from uuid import UUID

from fastapi import Body, Depends, FastAPI, HTTPException, Request
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.middleware.sessions import SessionMiddleware

from shop.database import Order, engine, open_session
from shop.jobs import app, pack, take_stock
from shop.users import CurrentUser, SignedInOnly, authorize, sign_in
from treadle import JobNotFound
from treadle.web import dashboard_app, events_app


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.dispose)
        stack.push_async_callback(app.aclose)
        if os.environ.get("SHOP_WORKER") == "1":
            await stack.enter_async_context(app.worker(concurrency=10, grace="1s"))
        yield


web = FastAPI(lifespan=lifespan)
web.add_middleware(SessionMiddleware, secret_key=os.environ.get("SHOP_SECRET", "for development only"))
web.mount("/queue", dashboard_app(app, authorize=authorize))
web.mount("/progress", SignedInOnly(events_app(app)))


@web.post("/sign-in", status_code=204)
async def post_sign_in(request: Request, name: Annotated[str, Body()], password: Annotated[str, Body()]) -> None:
    sign_in(request, name, password)


@web.post("/orders", status_code=201)
async def post_order(
    user: CurrentUser,
    session: Annotated[AsyncSession, Depends(open_session)],
    item: Annotated[str, Body()],
    boxes: Annotated[int, Body()] = 3,
) -> dict[str, str | int]:
    async with session.begin():
        order = Order(item=item)
        session.add(order)
        await session.flush()
        handle = await pack.using(connection=session).aenqueue(order=order.id, boxes=boxes)
        if item == "unicorn":
            raise HTTPException(409, "out of stock")  # rolls back the order and its job
    return {"order": order.id, "job": str(handle.id)}


@web.get("/orders/{number}")
async def get_order(
    number: int, user: CurrentUser, session: Annotated[AsyncSession, Depends(open_session)]
) -> dict[str, str | int]:
    order = await session.get(Order, number)
    if order is None:
        raise HTTPException(404, "there is no such order")
    return {"item": order.item, "packed": order.packed}


@web.post("/stock", status_code=202)
async def post_stock(user: CurrentUser) -> dict[str, str]:
    return {"job": str((await take_stock.aenqueue()).id)}


@web.get("/jobs/{job}")
async def get_job(job: UUID, user: CurrentUser) -> dict[str, object]:
    try:
        found = await app.handle(job).ajob()
    except JobNotFound:
        raise HTTPException(404, "there is no such job") from None
    return {"status": found.status, "result": found.result, "attempts": found.attempts}
