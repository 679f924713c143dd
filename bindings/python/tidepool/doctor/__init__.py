"""`tidepool doctor` and `tidepool top`: what a machine offers, and what its jobs do."""
