"""`treadle doctor`: problems in the queue, and in the database under it, that slow or break the queue.

facts.py       what is known about the server, the schema, the workers and the jobs
queries.py     the queries that return these facts
rules/         pure functions from facts to findings, by subject
finding.py     a finding and its severity
limits.py      the thresholds of the rules
text.py        how names, sizes and statements are written in a finding
examine.py     runs the queries and applies the rules
"""

from treadle.doctor.finding import Finding, Severity, by_severity, worst
from treadle.doctor.limits import Limits

__all__ = ["Finding", "Limits", "Severity", "by_severity", "worst"]
