"""The rules, by subject: pure functions from facts to findings, those that are ok included."""
