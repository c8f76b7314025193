"""Models of text: cards, loading, encoders, and the vectors that are kept."""
