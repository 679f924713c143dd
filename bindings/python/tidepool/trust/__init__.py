"""Which of the job's own operators may be replayed, and how that is found out."""
