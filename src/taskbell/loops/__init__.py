"""What runs by itself: dispatching, sweeping. Every loop has start, stop and run_once."""
