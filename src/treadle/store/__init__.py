"""Large values, stored by reference: in the database, in a folder or in an object store."""
