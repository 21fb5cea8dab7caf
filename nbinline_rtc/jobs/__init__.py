"""Work that runs in a process of its own, so that nothing it meets can hold up the server.

``python -m nbinline_rtc.jobs`` reads one job from its input and writes what it finds to its output,
line by line, so that what was found before a time limit is not lost. These modules import little:
the process should start at once.
"""
