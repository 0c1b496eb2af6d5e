"""`@job`: a group that the application of the project includes. It needs no settings, so any module can import it."""

from treadle.jobs.group import JobGroup

jobs = JobGroup()
job = jobs.job
