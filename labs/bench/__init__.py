"""`make bench`: what Dhow moves, beside a yardstick and raw TCP in the same run.

Start reading at `plan`: what one round measures. A measurement is a `sample`; the samples of all rounds become
rows (`row`), and rows a table and a file (`report`) and a picture (`picture`). `targets` are the floors and goals.

`node_to_node`, `relay`, `latency` and `narrow` measure Dhow, `peers` the independent nodes that are installed,
`yardstick` and `rawtcp` what all of them stand beside.
"""
