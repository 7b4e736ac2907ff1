"""What is measured: names, types, labels and help of every metric, and nothing else."""
