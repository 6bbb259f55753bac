"""What everybody may lean on to be seen and to know the time: clock protocol, logging, metrics, journal format."""
