"""Sources and sinks, one file or folder per system; `kinds` lists them."""
