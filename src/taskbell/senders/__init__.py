"""How attempts go out: one sender for each kind of target, and the minters of their tokens.

The contract is `taskbell.sender`; `app.py` chooses and wires what is here, nothing else knows it by name.
"""
