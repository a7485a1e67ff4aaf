"""The child: the only process that imports user code and runs Spark. One per run."""
