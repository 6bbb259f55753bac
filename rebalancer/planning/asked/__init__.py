"""What signals, people and clocks ask for: votes, demand, overrides, schedules, and whose work is deferred."""
