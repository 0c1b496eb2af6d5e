"""The enqueue role can enqueue in every way, and nothing else."""

import asyncio
import json
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.support.roles import Roles
from tests.support.workers import count, one
from treadle import JobQueue, NotAllowed, Once, Retries, Treadle


def test_the_enqueue_role_can_use_every_way_to_enqueue(roles: Roles, owner: Connection[Any]) -> None:
    with JobQueue(roles.url_of("enqueue")) as queue:
        plain = queue.enqueue("a", {"n": 1}, priority=150, queue="mail", retry=Retries(4))
        queue.enqueue("a", {}, delay="1h")
        first = queue.enqueue("a", {}, unique=Once(key="user:7"))
        assert queue.enqueue("a", {}, unique=Once(key="user:7")) == first
        assert len(queue.enqueue_many("a", [{"n": n} for n in range(100)])) == 100
        ordered = [queue.enqueue("keyed", {}, key="k") for _ in range(3)]
    assert count(owner) == 1 + 1 + 1 + 100 + 3
    assert one(owner, "select data from jobs where id = %s", plain) == {"n": 1}
    # The first is claimable and blocks the others.
    blocked = owner.execute("select id from jobs where holds = 1 order by id").fetchall()
    assert blocked == [(each,) for each in ordered[1:]]
    with JobQueue(roles.url, "w") as worker:
        assert [job.id for job in worker.claim(["keyed"], 10)] == ordered[:1]


def test_the_enqueue_role_can_enqueue_asynchronously(roles: Roles, owner: Connection[Any]) -> None:
    async def enqueue() -> None:
        async with JobQueue(roles.url_of("enqueue")) as queue:
            await queue.aenqueue("a", {}, key="k", unique=Once(key="u"))
            await queue.aenqueue_many("a", [{}] * 10)

    asyncio.run(enqueue())
    assert count(owner) == 11


def test_the_enqueue_role_can_enqueue_in_sql(roles: Roles, owner: Connection[Any]) -> None:
    connection = roles.connect("enqueue")
    connection.execute("insert into jobs (job_type) values ('a')")
    connection.execute(
        """insert into jobs (id, job_type, priority, data, created_at, max_attempts, queue, run_at, key, unique_key)
        values (gen_random_uuid(), 'a', 1, '{}', now(), 1, 'q', now(), 'k', 'u')"""
    )
    found = one(connection, "insert into jobs (job_type, created_at) values ('a', '2001-01-01') returning id")
    assert one(connection, "select enqueue('a', p_key => 'k')")
    assert one(connection, "select enqueue_unique('a', 'other', p_delay => '1 hour')")
    assert one(connection, "select enqueue_jobs('a', '{\"1\"}', p_keys => '{k}')")
    assert count(owner) == 6
    assert one(owner, "select run_at from jobs where id = %s", found).year == 2001
    assert one(owner, "select count(*) from lanes") == 2


def test_the_enqueue_role_can_enqueue_below_the_floor_and_on_an_old_snapshot(
    roles: Roles, owner: Connection[Any]
) -> None:
    """The triggers change rows that the enqueuer itself may not change."""
    owner.execute("insert into lanes (queue, job_type, priority) values ('default', 'a', 100)")
    owner.execute(
        """insert into floors (queue, job_type, priority, floor, xid)
        values ('default', 'a', 100, now(), pg_current_xact_id())"""
    )
    connection = roles.connect("enqueue")
    connection.execute("insert into jobs (job_type, run_at) values ('a', '2001-01-01')")
    assert one(owner, "select run_at = floor from jobs, floors")
    connection.execute("begin isolation level repeatable read")
    connection.execute("select enqueue('a', p_key => 'k')")
    connection.execute("commit")
    assert count(owner) == 2


def test_a_job_of_the_enqueue_role_is_unblocked_at_commit(
    roles: Roles, queue: JobQueue, owner: Connection[Any]
) -> None:
    """At commit, the trigger checks the job again and unblocks it; the enqueuer itself could not."""
    queue.enqueue("a", {}, key="k")
    connection = roles.connect("enqueue", autocommit=False)
    second = one(connection, "select enqueue('a', p_key => 'k')")
    (first,) = queue.claim(["a"])
    queue.complete(first)
    connection.commit()
    assert one(owner, "select holds from jobs where id = %s", second) == 0


def test_an_application_with_the_enqueue_role_can_only_enqueue(roles: Roles, owner: Connection[Any]) -> None:
    app = Treadle(roles.url_of("enqueue"))

    @app.job
    def welcome(user: int) -> None: ...

    handle = welcome.enqueue(user=7)
    welcome.using(key="user:7", unique=Once(key="user:7"), delay="10m").enqueue(user=7)
    welcome.enqueue_many({"user": n} for n in range(10))
    with pytest.raises(NotAllowed, match="permission denied for table jobs"):
        handle.status()
    with pytest.raises(NotAllowed, match=r"permission denied for (table jobs|function cancel_job)"):
        handle.cancel()
    with pytest.raises(NotAllowed, match="permission denied for table"):
        app.store(b"large")
    app.close()
    assert count(owner) == 12


def test_the_enqueue_role_looks_up_no_lane_that_it_has_seen(roles: Roles) -> None:
    connection = roles.connect("enqueue")
    for _ in range(2):
        connection.execute("select treadle.enqueue('a')")
    with connection.transaction():
        read = "select sum(seq_scan + idx_scan) from pg_stat_xact_user_tables where relname in ('lanes', 'floors')"
        before = connection.execute(read).fetchall()
        connection.execute("select treadle.enqueue('a')")
        assert connection.execute(read).fetchall() == before


def test_the_enqueue_role_cannot_forge_how_many_jobs_wait(roles: Roles, owner: Connection[Any]) -> None:
    """A session remembers what it has counted, if there are many: in a setting that the role can change."""
    owner.execute("select treadle.set_limit('many', 1500, p_job_type => 'a')")
    owner.execute("update treadle.limits set kind = 'pending', when_full = 'refuse'")
    fill = "select count(*) from treadle.enqueue_jobs('a', array_fill('{}'::text, array[%s]))"
    connection = roles.connect("enqueue")
    assert one(connection, fill, 1500) == 1500
    digest = one(connection, "select md5(concat_ws(%s, 'treadle.jobs'::regclass::oid, 'many', ''))", "\n")
    name = f"treadle.pending_{digest[:2]}"
    remembered = one(connection, "select current_setting(%s)", name).split()
    assert remembered[0] == digest
    remembered[2] = "0"
    now = "extract(epoch from clock_timestamp())"
    for forged in (remembered[:3], remembered, [*remembered[:3], "0" * 32]):
        connection.execute(
            f"select set_config(%s, concat_ws(' ', %s::text, {now}, '0', %s::text), false)",
            [name, digest, forged[3] if forged[3:] else None],
        )
        assert one(connection, fill, 1000) == 0
        connection.execute("select set_config(%s, %s, false)", [name, " ".join(forged)])
        assert one(connection, fill, 1000) == 0
    assert count(owner) == 1500
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select from treadle.seal")


def taking(job_id: Any) -> str:
    return json.dumps([{"id": str(job_id), "arguments": ["x"]}])


TAKING = {
    "a job": """select id from enqueue_with_options('mine', '{"{}"}', jsonb_build_object('after', %s::jsonb))""",
    "a job of a workflow": """select id from enqueue_workflow('w', jsonb_build_array(
        jsonb_build_object('job_type', 'mine', 'data', '["{}"]'::jsonb, 'part', 0, 'after', %s::jsonb)))""",
    "a job that a workflow adds": """select id from enqueue_workflow('w', jsonb_build_array(jsonb_build_object(
        'workflow', 1, 'part', 0, 'data', '["{}"]'::jsonb,
        'plan', jsonb_build_object('job_type', 'mine', 'data', '{}', 'argument', 'y', 'after', %s::jsonb))))""",
}


@pytest.mark.parametrize("how", TAKING)
def test_the_enqueue_role_cannot_take_the_result_of_a_stranger(roles: Roles, queue: JobQueue, how: str) -> None:
    """It would be handed to a handler of its choice. To wait for the job is allowed."""
    secret = queue.enqueue("secret")
    connection = roles.connect("enqueue")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not read results"):
        connection.execute(TAKING[how].encode(), [taking(secret)])
    assert connection.execute(TAKING[how].encode(), [json.dumps([{"id": str(secret)}])]).fetchall()
    assert roles.connect("worker").execute(TAKING[how].encode(), [taking(secret)]).fetchall()


def test_it_is_asked_for_the_role_that_it_has_set(roles: Roles, queue: JobQueue, owner: Connection[Any]) -> None:
    """A server process that serves several users changes its role."""
    secret = queue.enqueue("secret")
    owner.execute(f"set role {roles.prefix}_enqueue".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not read results"):
        owner.execute(TAKING["a job"].encode(), [taking(secret)])
    owner.execute("reset role")


def test_the_enqueue_role_can_pass_results_within_a_workflow(roles: Roles, queue: JobQueue) -> None:
    blocks = [
        {"job_type": "a", "data": ["{}"], "part": 0},
        {"job_type": "b", "data": ["{}"], "part": 0, "after": [{"nth": 0, "arguments": ["x"]}]},
    ]
    roles.connect("enqueue").execute("select enqueue_workflow('w', %s)", [json.dumps(blocks)])
    queue.complete(queue.claim(["a"])[0], 7)
    assert queue.claim(["b"])[0].data == {"x": 7}
