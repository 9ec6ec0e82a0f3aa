"""A fleet of workers that meets at Kafka brokers: requests and results as messages."""
