"""The rules: pure functions from facts to a reason, or to None where the cause does not apply."""
