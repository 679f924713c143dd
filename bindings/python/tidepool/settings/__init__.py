"""The settings: what they are, where they come from, and the sizes and files that they name."""
