"""The words of the queue: pure values, no I/O."""
