"""Who is to have which GPUs: every unit placed on nodes, donors asked, loans booked."""
