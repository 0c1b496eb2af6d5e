"""treadle bench: how fast the queue is on somebody's own database, and what to do about it.

command.py is the command. all.py measures one thing after the other, in a schema of its own (scratch.py): the server
(server.py), enqueueing one by one and a worker (work.py), and the queue against bare SQL (against.py). advice.py
makes sentences of the figures, drawing.py shows them.
"""

from treadle.cli.bench.against import measure
from treadle.cli.bench.command import bench
from treadle.cli.bench.drawing import as_dict, show

__all__ = ["as_dict", "bench", "measure", "show"]
