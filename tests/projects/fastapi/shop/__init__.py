"""A shop with FastAPI and SQLAlchemy, whose jobs are in the same database as its orders."""
