"""What each model needs: votes, the outlook, what is owed, what may wait."""
