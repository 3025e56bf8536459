"""Other task queues, each making the same POST to the same handler.

A peer is one row (`PEER` in its module): how to install it, how to start its broker, the commands of its worker and of
its producer, and the settings that its own documentation advises. `measure.py` runs every row the same way. To add one,
write its script into `roles/`, its row into a module here, and name it in `bench/parts.py`.
"""
