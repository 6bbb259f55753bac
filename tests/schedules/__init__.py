"""Random schedules of faults over two replicas, their world and their brokers, on one virtual clock."""
