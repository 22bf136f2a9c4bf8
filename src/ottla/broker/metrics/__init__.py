"""The broker's metrics and health over HTTP; imported only where `ottla.metrics.listen` is set."""
