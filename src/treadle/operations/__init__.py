"""What operators use: the overview of the queue, the details of a job, and changes of many jobs."""
