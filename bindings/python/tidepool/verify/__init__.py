"""`tidepool verify`: the same job run without and with Tidepool, and compared."""
