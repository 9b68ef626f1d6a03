"""What a program holds: sessions, fetches and feeds, variables."""
