"""Results of labs and simulations as tables of pandas: `pip install pandas pyarrow`.

    import dhow.results

    results = dhow.results.load("results")
    results.runs.groupby("traffic.size")["goodput_bit_s"].mean()
"""

from dhow.results.results import Results, load, load_all

__all__ = ["Results", "load", "load_all"]
