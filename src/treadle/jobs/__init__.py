"""What an application declares and calls: job functions, groups, handles, schedules, limits, workflows, middleware."""
