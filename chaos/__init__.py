"""Faults, and a ledger that says whether a promise was broken: `python -m chaos`, `make chaos`.

ledger     what was done, in files outside the database; checker: the verdict
app, load  the jobs that run, and who brings them
scene      server, proxy, workers and producers of one run; storms/: what happens to them
mutants    guards, each removed in turn: which run turns red
"""
