"""What the broker tells about itself over HTTP; imported only where `ottla.metrics.listen` is set."""
