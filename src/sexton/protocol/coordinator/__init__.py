"""What coordinators store and what consumers tell each other, as dataclasses; generated."""
