"""treadle bench: measures how fast the queue is on a database, and advises what would make it faster.

command.py is the command. suite.py runs the measurements one after the other, in a temporary schema (scratch.py): the
server (server.py), single enqueues and a worker (workload.py), the queue compared to bare SQL (comparison.py), and one
job type compared to several (lanes.py, with the application in jobs.py).
advice.py derives advice from the figures, display.py prints both.
"""

from treadle.cli.bench.command import bench
from treadle.cli.bench.comparison import measure
from treadle.cli.bench.display import as_dict, show

__all__ = ["as_dict", "bench", "measure", "show"]
