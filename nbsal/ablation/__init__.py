"""Running a model on texts with parts left out: in come texts and subsets of their units, out come what it says."""
