"""One file a verb: the order of calls, no maths."""
