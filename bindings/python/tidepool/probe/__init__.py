"""`tidepool probe`: what budgets cost a job, by simulation of its traces."""
