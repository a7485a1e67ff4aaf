"""Kafka and Azure Event Hubs: source, sink, and the clients that talk to brokers."""
