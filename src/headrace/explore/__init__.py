"""Looking at results: exactly the committed data, without a JVM."""
