"""treadle top: the whole queue on one screen, live.

command.py is the command and screen.py the Textual application. queue.py is the screen of the queue: columns.py,
schedule_columns.py and limit_columns.py define its tables, table.py is the widget that draws one, header.py draws the
lines above them. job.py is the screen of one job. refresh.py reads from the database through outages; actions.py
defines what the keys change; widgets.py has the footer, the confirmation and the help.
"""

from treadle.cli.top.command import top

__all__ = ["top"]
