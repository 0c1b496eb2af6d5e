"""treadle top: the whole queue on one screen, live.

command.py is the command, screen.py the application. queue.py is the screen of the whole queue: columns.py says what
stands in its tables, board.py draws one, head.py the lines above them. job.py is the screen of one job. looks.py looks
at the database while it comes and goes, acts.py is what can be done from here.
"""

from treadle.cli.top.command import top

__all__ = ["top"]
