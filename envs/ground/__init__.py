"""What everything stands on: checks of arguments, errors, whole-file writes, kernels and random bits."""
