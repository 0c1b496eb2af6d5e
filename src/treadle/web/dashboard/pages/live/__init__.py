"""Keeps open pages up to date: what they show is read once for all pages that show the same."""
