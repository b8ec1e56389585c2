"""Read the query histories of engines, and merge their statements by query shape into a workload file."""
