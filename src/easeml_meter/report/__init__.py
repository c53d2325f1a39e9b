"""Reports for people: the meter, its battery and its history as SVG, as a page, on a terminal.

Pure formatting: what comes out is a function of the view alone.
"""
