"""Fault injection: real workers and producers run while faults are injected, and Treadle's guarantees are checked.

Run it with `python -m chaos` or `make chaos`. A *storm* is one fault scenario: a kind of fault (kill -9, cut
connections, a full disk) that is injected again and again while the load runs. After the storm the load stops, the
workers finish what is left, and the checker compares the ledgers with the tables.

ledger     records what every process did, in files outside of the database
checker    compares the ledgers with the tables and reports violated guarantees
app, load  the jobs that the workers run, and the producers that enqueue them
scene      the server, proxy, workers and producers of one run
storms/    one class per fault scenario
mutants    removes one guard at a time from a copy of the source, and checks that a named test or storm then fails
"""
