"""Predicates: one parser, one evaluator, one pruner."""
