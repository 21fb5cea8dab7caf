"""Adapters to model services, one file a vendor's SDK."""
