"""The kit in front of web handlers, in one line of their own framework.

- `exchange.py`: what all share, from a request to its key and from what became of the work to the answer.
- `wsgi.py`, `asgi.py`: middlewares around an application; the standard library alone.
- `flask.py`, `functions_framework.py`, `fastapi.py`, `django.py`: the same in a framework's own words. Each imports its
  framework, and says which extra brings it when it is not there.
"""
