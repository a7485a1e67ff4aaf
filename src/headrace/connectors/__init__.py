"""Sources and sinks, one file a system. Which kinds there are stands in `kinds`."""
