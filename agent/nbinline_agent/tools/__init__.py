"""What a model may do: tools, the box a run is given, and the rounds they are used in."""
