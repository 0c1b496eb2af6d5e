"""A process that uses the embedded PostgreSQL and runs the commands that it reads from standard input.

usage: python embedded_user.py FOLDER [--user ID] [--packages FOLDER] [--fork-while-starting]

It answers its start and every command with a line of JSON, and exits at the end of its input.
"""

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg

from treadle.db.embedded import embedded_url, leave
from treadle.words.errors import TreadleError

Answer = dict[str, object]


def join(folder: Path) -> Answer:
    try:
        url = embedded_url(folder, {"fsync": "off"})
    except TreadleError as error:
        return {"error": str(error)}
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select current_setting('data_directory'), split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int"
        ).fetchone()
    assert row
    return {"url": url, "data": row[0], "postmaster": row[1]}


def fork() -> Answer:
    child = os.fork()
    if child == 0:
        # On SIGTERM the child runs its exit handlers, as a fork that returns from main does.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        signal.pause()
    return {"child": child}


def fork_while_starting(folder: Path) -> Answer:
    starting = threading.Thread(target=embedded_url, args=(folder, {"fsync": "off"}))
    starting.start()
    while not is_starting(folder):
        time.sleep(0.001)
    forked = fork()
    starting.join()
    return {**join(folder), **forked}


def is_starting(folder: Path) -> bool:
    try:
        with (folder / "server").open() as server:
            fcntl.flock(server, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def run_command(command: str, folder: Path) -> Answer:
    match command:
        case "join":
            return join(folder)
        case "leave":
            leave(folder)
            return {}
        case "fork":
            return fork()
        case "spawn":
            # close_fds=False: the flags of each file descriptor decide whether the child inherits it.
            return {"child": subprocess.Popen(["sleep", "600"], close_fds=False).pid}
        case _:
            raise ValueError(command)


def main() -> None:
    # A shell ignores SIGINT for its background jobs, and tests started there would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--user", type=int)
    parser.add_argument("--packages")
    parser.add_argument("--fork-while-starting", action="store_true")
    chosen = parser.parse_args()
    if chosen.packages:
        sys.path.insert(0, chosen.packages)
    if chosen.user:
        # Import everything that a connection needs before switching users: an ordinary user may not be able to
        # read the files of the interpreter.
        with contextlib.suppress(psycopg.Error):
            psycopg.connect("host=/nowhere")
        os.setgroups([])
        os.setgid(chosen.user)
        os.setuid(chosen.user)
    first = fork_while_starting(chosen.folder) if chosen.fork_while_starting else join(chosen.folder)
    print(json.dumps(first), flush=True)
    for line in sys.stdin:
        answer = run_command(line.strip(), chosen.folder)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
