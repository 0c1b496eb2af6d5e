"""Why the server refuses writes, although it answers."""

from enum import StrEnum

# What does not fail again for this long is over. Also in find_refusal.sql.
SECONDS = 10.0


class Refusal(StrEnum):
    """By the names that PostgreSQL gives to its error codes."""

    DISK_FULL = "disk_full"
    OUT_OF_MEMORY = "out_of_memory"
    IO_ERROR = "io_error"

    @property
    def sentence(self) -> str:
        return f"The server cannot write: {_CAUSES[self]}."

    @property
    def remedy(self) -> str:
        return f"{_REMEDIES[self]}\n{_THEN}"


_CAUSES = {
    Refusal.DISK_FULL: "its disk is full",
    Refusal.OUT_OF_MEMORY: "it has no memory left",
    Refusal.IO_ERROR: "its disk reports errors",
}
_REMEDIES = {
    Refusal.DISK_FULL: (
        "Make room on the disk of the server, or enlarge it (df -h shows which one is full). Never delete files of its "
        "data folder by hand. If the queue is in a tablespace: select spcname, pg_tablespace_location(oid) from "
        "pg_tablespace;"
    ),
    Refusal.OUT_OF_MEMORY: (
        "The log of the server says which memory: give its machine more, or lower work_mem and the number of "
        "connections. If it is shared memory, raise max_locks_per_transaction."
    ),
    Refusal.IO_ERROR: "The log of the server says which file. Check its disk and file system, and have a backup ready.",
}
_THEN = "No restart is required: workers try again every two seconds at most, and write what waits. No outcome is lost."
