"""The rules of Taskbell: pure functions and frozen values.

Nothing here reads a clock, draws chance or does I/O; instants, chance and zones are arguments. Everything else in the
package imports inward to here, and this package imports the standard library only (and cronsim, in `cron.py`).
"""
