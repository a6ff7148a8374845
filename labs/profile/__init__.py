"""The processor time of a daemon by function: one case and size of the bench under perf. For developers.

Start reading at `__main__`; `scene` is a case of the bench in steps, `record` perf attached to one process.
"""
