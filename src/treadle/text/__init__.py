"""Text for people and logs: masked, bounded and printable."""
