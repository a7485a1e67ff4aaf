"""What Spark keeps about a query on disk: read, compared, guarded. Plain files, no Spark."""
