"""Tidepool inside one process: attached once, steered and watched while the job runs."""
