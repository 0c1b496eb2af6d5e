"""Query builders, by subject: each checks its arguments and returns a Query value. None of them does I/O."""
