"""Places the GPUs: every unit on nodes, donors asked, loans booked; shares come before."""
