"""What machines are: facts, which analysis, schedules and back ends read. Nothing here decides anything."""
