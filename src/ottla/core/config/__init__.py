"""Configuration: every key declared once, checked as a whole, with Kafka's names."""
