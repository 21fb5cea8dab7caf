"""The tools that notes people wrote rely on: names, arguments and defaults, each with what it does.

These functions only declare. The server, the shared document or the kernel does the work; the
people's module ``nbinline_rtc.tools`` makes them callable in a kernel where that has a sense.
"""
