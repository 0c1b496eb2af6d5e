"""Small models of the queue, explored exhaustively: every interleaving of a few transactions and a crash.

explore.py    visits every state that can be reached, and returns the shortest way to one that violates a promise
lanes.py      floors, ticks, dormant lanes, late commits, clock jumps: no job is lost
keys.py       jobs with one key that are blocked and unblocked: none is blocked for ever, and one runs at a time
leases.py     claims, lease numbers, renewals, recovery, crashes: one outcome is accepted
replay.py     performs the steps of a model on a server, and compares

Each model has a list of guards. Without any one of them, the exploration finds a violation.
"""
