"""`treadle why` and `treadle schedules why`: why a job or a schedule does not run.

facts.py       what is known about the job, its key, its lane and the workers, or about the schedule
queries.py     the queries that return these facts
rules/         pure functions from facts to a reason, by the status of the job; schedule.py: of a schedule
decide.py      the order of the rules: the one reason, and what else is in the way
reason.py      a reason: its name, its sentence and what to do
text.py        how names, times and numbers are written in a sentence
explain.py     runs the query and applies the rules
"""

from treadle.why.decide import decide
from treadle.why.facts import Facts
from treadle.why.reason import Reason

__all__ = ["Facts", "Reason", "decide"]
