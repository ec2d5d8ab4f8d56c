"""How to find where a score is highest."""
