"""Migrations: one for each version of the schema."""
