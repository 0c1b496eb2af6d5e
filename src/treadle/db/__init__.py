"""The database: the only package that imports a driver."""
