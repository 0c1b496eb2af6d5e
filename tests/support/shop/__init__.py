"""A program in several modules: jobs.py modules declare groups, application.py includes them."""
