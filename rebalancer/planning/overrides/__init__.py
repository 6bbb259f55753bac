"""What people and schedules rule, before anything is counted."""
