"""What machines are: facts, which analysis and schedules read."""
