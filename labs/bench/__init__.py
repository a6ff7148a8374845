"""`make bench`: bundles from node to node over loopback, beside raw TCP in the same run.

Start reading at `__main__`; `point` is one measurement, `rawtcp` the yardstick.
"""
