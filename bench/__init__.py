"""How fast Taskbell is, against what its parts allow and against what people use instead.

`python -m bench` (or `make bench`) measures three kinds of thing on this machine, in rounds:

- *floor* (`floor.py`): the parts alone, which no build on them can beat;
- *ours* (`ours.py`): the real server, through its public gRPC API;
- *peers* (`peers/`): other task queues, each making the same POST to the same handler (`handler.py`).

A round measures every part once; the figures are medians over rounds, and ratios are taken inside one round, so that a
machine that slows down slows both sides. `report.py` prints the table and writes it with its conditions.
"""
