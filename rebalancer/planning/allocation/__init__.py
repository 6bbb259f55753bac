"""Divides the GPUs: shares by worth, then every unit placed on nodes, donors asked, loans booked."""
