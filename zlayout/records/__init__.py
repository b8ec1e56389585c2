"""History records: what each command found and did at each table, and how the tables develop."""
