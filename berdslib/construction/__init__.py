"""Building a benchmark: from raw rows over questions and perspectives to a data set that can be shared."""
