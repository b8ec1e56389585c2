"""Read what engines keep of their queries, and merge it by query shape into a workload file."""
