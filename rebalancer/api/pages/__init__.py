"""What the console shows, made from the data of one instant. Pure functions; the renderer calls them in threads."""
