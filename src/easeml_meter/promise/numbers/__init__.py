"""Numbers in, numbers out: tails, intervals and searches that know no meter."""
