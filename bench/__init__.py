"""Speed beside Apache Kafka, in one run on one machine: `python -m bench`. Not part of the package."""
