"""Commands of manage.py: treadle."""
