"""The wire: gRPC and REST over one table of methods."""
