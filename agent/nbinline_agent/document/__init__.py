"""The shared document: everything that touches the CRDT."""
