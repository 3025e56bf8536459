"""The stores of claims, one file each. `idempotency/store.py` is their contract."""
