"""Integrations with other libraries, each an extra of its own, above everything else."""
