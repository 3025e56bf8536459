"""What each RPC means, in core's words and for every API version alike.

The wire calls in here with values already decoded; engines and loops are seen only through their contracts.
"""
