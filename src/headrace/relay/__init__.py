"""The process that talks to the network beside the pipelines: how far behind brokers' data is."""
