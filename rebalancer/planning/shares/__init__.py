"""What each model is to have of the GPUs there are, by what each count of replicas is worth to whom."""
