"""Migrations, search paths, isolation levels, statements by hand."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

MUTANTS = [
    Mutant(
        "a migration takes its locks first",
        "src/treadle/db/migrations.py",
        "        if lock := lock_sql(connection, schema, _tables(steps), timeout):\n",
        "        if lock := '':\n",
        test("db/migrations", "test_changed_triggers_take_the_strongest_lock_first"),
    ),
    Mutant(
        "a migration waits for a lock only briefly",
        "src/treadle/db/table_locks.py",
        "LOCK_TIMEOUT, LONGEST_TIMEOUT = 100, 500",
        "LOCK_TIMEOUT, LONGEST_TIMEOUT = 9000, 9000",
        test("db/migrations_under_load", "test_nobody_notices_a_migration_behind_a_long_reader"),
    ),
    Mutant(
        "a trigger that has not changed is left alone",
        "src/treadle/db/migrations.py",
        "            if name in state.functions and state.functions.get(",
        "            if False and state.functions.get(",
        test("db/migrations_under_load", "test_a_changed_function_needs_no_lock"),
    ),
    Mutant(
        "functions have a pinned search path",
        "src/treadle/db/search_path.py",
        "{PINNED}\\n{match[1]}",
        "{match[1]}",
        test("db/search_path", "test_no_call_of_the_queue_runs_the_code_of_a_stranger"),
    ),
    Mutant(
        "migrations have a pinned search path",
        "src/treadle/db/migrations.py",
        "        connection.execute(PINNED_LOCALLY)\n",
        "",
        test("db/search_path", "test_a_migration_runs_no_code_of_a_stranger"),
    ),
    Mutant(
        "reads have a pinned search path",
        "src/treadle/db/runner.py",
        "{PINNED_LOCALLY};\n",
        "",
        test("db/search_path", "test_no_read_runs_the_code_of_a_stranger"),
    ),
    Mutant(
        "a transaction with an older snapshot adds a lane once",
        f"{FUNCTIONS}/triggers/register_lanes.sql",
        "            perform set_config(c_added, (v_added || v_new)::text, true);\n",
        "",
        test("queue/isolation", "test_a_transaction_adds_a_lane_once"),
    ),
    Mutant(
        "serializable enqueuers read no lanes",
        f"{FUNCTIONS}/triggers/register_lanes.sql",
        "        if v_new is not null then\n",
        "        if v_new is not null and (select count(*) from treadle.lanes) >= 0 then\n",
        test("queue/isolation", "test_serializable_enqueuers_do_not_abort_each_other"),
    ),
    Mutant(
        "a claim by hand gets a new lease number",
        f"{FUNCTIONS}/triggers/change_job.sql",
        "        or old.status = 'pending' and new.lease = old.lease\n",
        "",
        test("queue/by_hand", "test_a_claim_by_hand_under_the_same_name_moves_the_lease"),
    ),
]
