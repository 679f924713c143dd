"""Plans for recorded steps: files of them, and solvers that find them (`tidepool plan`)."""
