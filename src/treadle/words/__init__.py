"""The vocabulary of the queue: small, pure values without I/O."""
