"""Text for people, the same in the CLI and in the console."""
