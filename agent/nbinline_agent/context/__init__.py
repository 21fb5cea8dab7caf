"""From a frozen snapshot to the request a model gets. Pure: no input or output happens here."""
