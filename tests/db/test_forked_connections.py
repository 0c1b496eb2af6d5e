"""Connections in a process that was forked."""

import subprocess
import sys

FORK = """
import os, sys
from psycopg import OperationalError
from treadle.db.own_connection import OwnConnection

connection = OwnConnection.connect(sys.argv[1], autocommit=True)
child = os.fork()
if not child:
    try:
        connection.execute("select 'of the child'")
    except OperationalError:
        os._exit(7)
    os._exit(0)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), *connection.execute("select 'of the parent'").fetchone())
"""


def test_a_child_cannot_use_a_connection_of_its_parent(server_url: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORK, server_url], check=True, capture_output=True, text=True)
    assert done.stdout == "7 of the parent\n"
