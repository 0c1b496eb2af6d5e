"""What operators do and look at: the overview, the details of a job, changes of many jobs."""
