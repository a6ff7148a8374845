"""`make demo`: real files cross a link that is down most of the time, through a node that is killed on the way.

Start reading at `__main__`; `cargo` is what travels, `contacts` is when it may, `outcome` is what became of it.
"""
