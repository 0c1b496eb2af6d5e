"""One seed replays everything: workers, keepers and producers in one process, against a real PostgreSQL.

    make simulate [SEED=7] [STEPS=100000]
    python -m chaos.simulation --seed 7 --episodes 1 --trace

The code of workers and keepers is that of production. The simulation owns what is different each time otherwise:

    loop.py       time, which jumps to the next timer when nothing is left to do; processes, which are killed and frozen
    network.py    the order in which statements reach the server, one at a time; lost replies, cuts; notifications
    database.py   the server's clock, the ids of jobs and the randomness of the server
    plan.py       what happens when: jobs and faults, drawn from the seed
    machines.py   a worker and its keeper; app.py: its jobs; run.py: one episode
    judge.py      the verdict, from what the simulation recorded; it shares no code with Treadle
    shrink.py     the shortest plan that still fails
"""
