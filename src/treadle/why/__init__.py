"""Why a job does not run: facts, and the one reason that follows from them.

db/why.py asks for the facts; decide() is pure.
"""

from treadle.why.decide import decide
from treadle.why.facts import Facts
from treadle.why.reason import Reason

__all__ = ["Facts", "Reason", "decide"]
