"""What Taskbell ships for tests: its own, and those of programs that use it."""
