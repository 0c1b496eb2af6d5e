"""The HTML pages, the forms on them, and the live updates of open pages."""
