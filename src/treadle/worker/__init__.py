"""The running process: claims jobs, runs their handlers, and writes their outcomes."""
