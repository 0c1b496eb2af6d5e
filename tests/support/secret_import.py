"""An application that cannot be imported, with a secret in the error."""

raise ValueError("cannot reach postgres://ada:hunter2-canary@db/films")
