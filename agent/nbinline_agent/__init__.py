"""The agent: a peer in a shared notebook that answers questions. It knows no web server."""
