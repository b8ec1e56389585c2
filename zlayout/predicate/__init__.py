"""Predicates on columns: parsing, evaluation over partition values, and pruning by file bounds."""
