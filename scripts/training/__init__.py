"""What only made the shipped judges: training pairs by rule, and the training itself."""
