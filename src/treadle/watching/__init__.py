"""What people watch: live streams of events, updates and snapshots of jobs, and how a terminal shows them."""
