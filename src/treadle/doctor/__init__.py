"""The health of the queue and of the server under it: facts, and what they mean.

Every check is a pure function from facts to findings; db/health.py asks for the facts, app/doctor.py brings them
together.
"""

from treadle.doctor.finding import Finding, Level, by_urgency, worst
from treadle.doctor.limits import Limits

__all__ = ["Finding", "Level", "Limits", "by_urgency", "worst"]
