"""The front door: the application, which brings everything together."""
