"""One requirement each, one command each: `python3 -m labs.cases NAME`.

Start reading at `case`; `__main__` knows all names.
"""
