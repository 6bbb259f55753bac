"""What disturbs a world, by what it hits; `tests.machine.deeds` has the table."""
