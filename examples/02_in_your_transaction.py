"""Enqueue a job in your own transaction: it exists if and only if your own rows do."""

import os

import psycopg

from treadle import JobQueue


def main() -> None:
    with psycopg.connect(os.environ["TREADLE_DATABASE_URL"]) as connection:
        connection.execute("create temporary table users (id int primary key, name text)")
        queue = JobQueue(connection)

        connection.execute("insert into users values (1, 'Ada')")
        welcome = queue.enqueue("welcome", {"user": 1})
        connection.commit()  # the row and the job exist

        connection.execute("insert into users values (2, 'Grace')")
        queue.enqueue("welcome", {"user": 2})
        connection.rollback()  # neither exists

        print([job.data for job in queue.list(job_type="welcome").jobs])
        queue.cancel(welcome)


if __name__ == "__main__":
    main()
