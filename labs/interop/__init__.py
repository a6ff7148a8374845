"""`make interop`: bundles both ways between dhow and independent programs, by size, with tick or reason.

Start reading at `__main__`; `peer` is what every peer can do, `dtn7`, `hardy` and `clients` are the peers,
`installation` is where they come from.
"""
