"""The person at the terminal: results, talk, questions, colours, completion, and the times that people type."""
