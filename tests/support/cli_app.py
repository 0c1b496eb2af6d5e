"""An application for the tests of the command line."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from treadle import Job, Treadle

app = Treadle()


@app.job(priority=30)
def welcome(
    user_id: int,
    job: Job,
    name: str = "",
    price: Decimal | None = None,
    when: datetime | None = None,
    tags: list[str] | None = None,
    whatever: Any = None,
) -> str:
    return f"hello {user_id}"


@app.job
def loose(**values: int) -> None: ...
