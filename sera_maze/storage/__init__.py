"""How a training lies on the disk: checkpoint files, plain values, parameters, logs."""
