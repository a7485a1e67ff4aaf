"""In a notebook: streams as live tables and charts, batch rows in and out of connectors."""
