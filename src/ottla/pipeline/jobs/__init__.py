"""The jobs of the pipeline, each a thin shell of input and output over pure functions."""
