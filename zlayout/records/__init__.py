"""The history of tables: what each command found and did, and how it develops."""
