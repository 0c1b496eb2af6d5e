"""Enqueue a job in your own transaction: it exists if and only if your own rows do.

Install: pip install "treadle[embedded]"
"""

import psycopg

from treadle import JobQueue, Treadle


def main() -> None:
    app = Treadle()  # finds the database, and starts a private one if none is named
    with psycopg.connect(app.database.url) as connection:
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
    app.close()


if __name__ == "__main__":
    main()
