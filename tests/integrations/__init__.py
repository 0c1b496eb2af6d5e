"""Programs that use the installed wheel, each in an environment of its own (`make integrations`)."""
