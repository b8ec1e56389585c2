"""Predicates on columns: parsing, evaluation for partitions, and pruning of files by their bounds."""
