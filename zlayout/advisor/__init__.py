"""What a layout would do for real queries, before anyone pays for the rewrite. docs/choosing-columns.md"""
