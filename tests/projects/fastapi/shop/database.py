"""The tables of the shop. `python -m shop.database` creates them."""

import asyncio
import os
from collections.abc import AsyncIterator

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    packed: Mapped[int] = mapped_column(default=0)


# Treadle reads the same variable. It connects when it is first used, like the engine.
engine = create_async_engine(os.environ.get("DATABASE_URL", "postgresql+asyncpg://localhost/shop"))
sessions = async_sessionmaker(engine, expire_on_commit=False)


async def open_session() -> AsyncIterator[AsyncSession]:
    async with sessions() as session:
        yield session


async def create_tables(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)


if __name__ == "__main__":
    asyncio.run(create_tables(engine))
