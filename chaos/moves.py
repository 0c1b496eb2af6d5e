"""When jobs were claimed, and taken from their workers or given back: a trigger notes it in the database."""

from typing import Any, NamedTuple

import psycopg

MOVES = """
create table public.moves (job uuid, lease bigint, at timestamptz, status text, job_type text, tenant text);
create function public.note_move() returns trigger language plpgsql as $$ begin
    insert into public.moves
    values (
        new.id, new.lease, case when new.status = 'claimed' then new.claimed_at else clock_timestamp() end, new.status,
        new.job_type, new.data ->> 'tenant'
    );
    return null;
end $$;
create trigger note_move after update on treadle.jobs for each row
    when ({only}
        (new.lease <> old.lease
        or old.status in ('claimed', 'running') and new.status not in ('claimed', 'running'))
    )
    execute function public.note_move();
"""


class Move(NamedTuple):
    """A job was claimed, or taken from or given back by its worker. Times are seconds since 1970, or of the ledger."""

    job: str
    lease: int
    at: float
    status: str
    job_type: str = ""
    tenant: str = ""


def read_moves(connection: psycopg.Connection[Any]) -> list[Move]:
    rows = connection.execute(
        "select job::text, lease, extract(epoch from at)::float8, status, job_type, tenant from public.moves"
    )
    return [Move(*row) for row in rows]
