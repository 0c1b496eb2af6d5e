"""One attempt of a job: the Job that a handler sees, and the state behind it."""
